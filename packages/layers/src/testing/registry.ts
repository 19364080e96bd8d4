import { hash } from "node:crypto"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { basename } from "node:path"
import { onTestFinished } from "vitest"
import { makePackages, type NpmPackage } from "./npm-packages.ts"

/** Old enough for tools that distrust recently published packages. */
const PUBLISHED = "2020-01-01T00:00:00.000Z"

/** Starts a registry of npm's on loopback, for the running test, and returns its address. */
export const startRegistry = async (turning: boolean): Promise<string> => {
  const packages = makePackages(turning)
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", url)
    const packed = packages.find(({ tarball }) => basename(tarball) === basename(pathname))
    const versions = packages.filter(({ name }) => pathname === `/${name}`)
    if (packed) response.end(readFileSync(packed.tarball))
    else if (versions.length > 0) response.end(JSON.stringify(describe(versions, url)))
    else response.writeHead(404).end("{}")
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  })
  return url
}

/** A registry's description of a package. */
const describe = (versions: readonly NpmPackage[], url: string) => ({
  name: versions[0]?.name,
  "dist-tags": { latest: versions.at(-1)?.version },
  time: Object.fromEntries(versions.map(({ version }) => [version, PUBLISHED])),
  versions: Object.fromEntries(
    versions.map(({ name, version, dependencies, tarball }) => [
      version,
      {
        name,
        version,
        dependencies,
        dist: {
          tarball: `${url}/${name}/-/${basename(tarball)}`,
          integrity: `sha512-${hash("sha512", readFileSync(tarball), "base64")}`,
          shasum: hash("sha1", readFileSync(tarball)),
        },
      },
    ]),
  ),
})
