import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { FileEntry } from "@berth/protocol/files"
import { paddingOf, TAR, writeHeader } from "@berth/protocol/tar-header"
import { createClient } from "@berth/sdk/client"
import { nodeFetch } from "@berth/sdk/node-fetch"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { onTestFinished } from "vitest"

/** The answers of a sandbox to requests about its files. An answer can do anything before it is given. */
export interface PlayedFiles {
  readonly stat?: (path: string) => unknown
  /** The entries of folders, by path: the archive is made from them, folder by folder, as it is read. */
  readonly list?: (path: string) => Listed | Promise<Listed>
  /** Called between a file's header in the archive and its content. */
  readonly onContent?: (path: string, response: ServerResponse) => void
  /** Sends the content of a file that is requested by itself. */
  readonly content?: (path: string, response: ServerResponse) => void
  /** Sends the archive, instead of one that is made from `list`. */
  readonly archive?: (response: ServerResponse) => void
}

type Listed = readonly FileEntry[]

/** An entry of a listing, with all its fields. */
export const entry = (path: FileEntry["path"], more: Partial<FileEntry> = {}): FileEntry => ({
  path,
  kind: "file",
  size: 5,
  mode: 0o644,
  uid: 1000,
  gid: 1000,
  modifiedAtMs: 0,
  etag: "x",
  ...more,
})

/** Starts a server that passes on a hostile sandbox's answers as they are. */
export const playFiles = async (played: PlayedFiles): Promise<Sandbox> => {
  const { stat = (path) => entry(path, { kind: "directory" }) } = played
  const { content = (_path, response) => response.end("hello") } = played
  const { archive = (response) => void sendArchive(response, played) } = played
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://played")
    const path = searchParams.get("path") ?? ""
    if (pathname.endsWith("/content")) return content(path, response)
    if (pathname.endsWith("/archive")) return archive(response)
    response.setHeader("content-type", "application/json")
    response.end(JSON.stringify(stat(path)))
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return createClient({ url, token: "x", fetch: nodeFetch }).sandboxes.at("sb-0123456789abcdefghjk")
}

/** Sends the archive piece by piece, as far as it is read. */
const sendArchive = async (response: ServerResponse, played: PlayedFiles): Promise<void> => {
  for await (const piece of archiveOf("dir", "", played, response)) {
    if (response.destroyed) return
    await new Promise<void>((resolve) => response.write(piece, () => resolve()))
  }
  response.end(Buffer.alloc(1024))
}

async function* archiveOf(
  path: string,
  within: string,
  played: PlayedFiles,
  response: ServerResponse,
): AsyncGenerator<Buffer> {
  for (const each of (await played.list?.(path)) ?? []) {
    const own = typeof each.path === "string" ? each.path : fromBase64(each.path.base64)
    const name = `${within}${own}`
    yield tarEntry(name, each)
    if (each.kind === "file") {
      played.onContent?.(`${path}/${own}`, response)
      // The content is cut where it would be more than a disk has.
      const size = Math.min(each.size, MAX_SENT_BYTES)
      yield Buffer.alloc(size, "hello")
      yield Buffer.alloc(paddingOf(size))
    }
    if (each.kind === "directory") yield* archiveOf(`${path}/${own}`, `${name}/`, played, response)
  }
}

const MAX_SENT_BYTES = 1_000_000

const fromBase64 = (text: string) => Buffer.from(text, "base64").toString()

const TYPES = { file: TAR.file, directory: TAR.directory, link: TAR.link, other: "6" } as const

/** The header of an entry; names that are too long for a header are in an extended one. */
export const tarEntry = (name: string, { kind, size, mode, target, modifiedAtMs }: FileEntry) => {
  const header = {
    type: TYPES[kind],
    target: Buffer.from(typeof target === "string" ? target : ""),
    size: kind === "file" ? size : 0,
    mode,
    modifiedAtMs,
    uid: 1000,
    gid: 1000,
  }
  const own = Buffer.from(kind === "directory" ? `${name}/` : name)
  if (!name.includes("\0")) return writeHeader({ ...header, name: own })
  const record = Buffer.concat([Buffer.from(` path=`), own, Buffer.from("\n")])
  const length = String(record.length + 2)
  const extended = Buffer.concat([Buffer.from(length), record])
  return Buffer.concat([
    writeHeader({ ...header, type: TAR.extended, name: Buffer.from("x"), size: extended.length }),
    extended,
    Buffer.alloc(paddingOf(extended.length)),
    writeHeader({ ...header, name: Buffer.from("x") }),
  ])
}
