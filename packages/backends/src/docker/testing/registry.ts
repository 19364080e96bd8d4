import { createHash } from "node:crypto"
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { gzipSync } from "node:zlib"
import { tarOf } from "../far/tar.ts"

/** A registry on the loopback with one image, which holds one file that does not compress. */
export interface Registry {
  readonly reference: string
  /** How often the image was asked for. */
  readonly pulls: () => number
  close(): void
}

const NAME = "berth-test/pulled"
const MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
const LAYER_BYTES = 4 * 1024 * 1024

export const startRegistry = async (noise: Buffer = noiseOf(LAYER_BYTES)): Promise<Registry> => {
  const tar = tarOf([{ path: "noise", mode: 0o644, owner: 0, contents: noise }])
  const layer = gzipSync(tar)
  const config = Buffer.from(
    JSON.stringify({
      architecture: process.arch === "arm64" ? "arm64" : "amd64",
      os: "linux",
      config: {},
      rootfs: { type: "layers", diff_ids: [digestOf(tar)] },
    }),
  )
  const described = (mediaType: string, blob: Buffer) => ({
    mediaType,
    size: blob.length,
    digest: digestOf(blob),
  })
  const manifest = Buffer.from(
    JSON.stringify({
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: described("application/vnd.docker.container.image.v1+json", config),
      layers: [described("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)],
    }),
  )
  let pulls = 0
  const server = createServer(({ url = "", method }, answer) => {
    const give = (blob: Buffer, type = "application/octet-stream") =>
      send(answer, blob, type, method)
    if (url === "/v2/") return give(Buffer.from("{}"), "application/json")
    if (url.startsWith(`/v2/${NAME}/manifests/`)) {
      if (!/\/(1|sha256:.*)$/.test(url)) return notFound(answer)
      if (method === "GET") pulls += 1
      return give(manifest, MANIFEST)
    }
    const blob = [config, layer].find((each) => url.endsWith(digestOf(each)))
    return blob === undefined ? notFound(answer) : give(blob)
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    reference: `127.0.0.1:${port}/${NAME}:1`,
    pulls: () => pulls,
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

const send = (answer: ServerResponse, blob: Buffer, type: string, method: string | undefined) => {
  const headers = { "content-type": type, "content-length": blob.length }
  answer.writeHead(200, { ...headers, "docker-content-digest": digestOf(blob) })
  answer.end(method === "HEAD" ? undefined : blob)
}

const notFound = (answer: ServerResponse): void => {
  const errors = [{ code: "MANIFEST_UNKNOWN", message: "manifest unknown" }]
  answer.writeHead(404, { "content-type": "application/json" }).end(JSON.stringify({ errors }))
}

const digestOf = (bytes: Buffer) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`

const noiseOf = (bytes: number): Buffer => {
  const noise = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; at += 32)
    createHash("sha256").update(String(at)).digest().copy(noise, at)
  return noise
}
