import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { FileEntry } from "@berth/protocol/files"
import { createClient } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { onTestFinished } from "vitest"

/** The answers of a sandbox to what is asked about its files. An answer can do anything before it is given. */
export interface PlayedFiles {
  readonly stat?: (path: string) => unknown
  readonly list: (path: string) => unknown
  readonly content?: (path: string, response: ServerResponse) => void
}

/** An entry of a listing, with all that a listing says of it. */
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

/** A server that passes on what a hostile sandbox says, as it is. */
export const playFiles = async (played: PlayedFiles): Promise<Sandbox> => {
  const { stat = (path) => entry(path, { kind: "directory" }), list } = played
  const { content = (_path, response) => response.end("hello") } = played
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://played")
    const bytes = Buffer.from(searchParams.get("path64") ?? "", "base64").toString()
    const path = searchParams.get("path") ?? bytes
    if (pathname.endsWith("/content")) return content(path, response)
    const said = pathname.endsWith("/stat") ? stat(path) : list(path)
    // Undefined: it has been answered otherwise, or never is.
    if (said instanceof Function) return said(response)
    response.setHeader("content-type", "application/json")
    response.end(typeof said === "string" ? said : JSON.stringify(said))
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return createClient({ url, token: "x" }).sandboxes.at("sb-0123456789abcdefghjk")
}
