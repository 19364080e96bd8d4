import { constants } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import type { ServerResponse } from "node:http"
import { BerthError, toWireError } from "@berth/protocol/errors"
import { contentQuery } from "../../checks/forms/files.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { locate } from "./bytes.ts"
import { entryOf } from "./entry.ts"
import { attempt, wrongKind } from "./failure.ts"
import { parseRange } from "./range.ts"
import { Sender } from "./send.ts"

/** Block size: as much as a socket takes at once. */
const BLOCK_BYTES = 256 * 1024

/** `GET /files/content` */
export const readContent =
  (workspace: string) =>
  async ({ request, response, query }: HttpCall): Promise<void> => {
    const { path } = readQuery(query, contentQuery)
    // Opening a named pipe would block without O_NONBLOCK.
    const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
    const file = await attempt("open", path, () => open(locate(path, workspace), flags))
    try {
      const { kind, size, etag, modifiedAtMs } = entryOf(await file.stat({ bigint: true }), path)
      if (kind !== "file") throw wrongKind(path, kind, "file")
      const headers = {
        "content-type": "application/octet-stream",
        "accept-ranges": "bytes",
        etag,
        "last-modified": new Date(modifiedAtMs).toUTCString(),
      }
      const range = parseRange(request.headers.range, size)
      if (range === "unsatisfiable") return refuseRange(response, size)
      if (range !== undefined) {
        const length = { "content-length": range.end - range.start }
        const place = { "content-range": `bytes ${range.start}-${range.end - 1}/${size}` }
        response.writeHead(206, { ...headers, ...length, ...place })
      } else response.writeHead(200, { ...headers, ...(size > 0 && { "content-length": size }) })
      // Files of the kernel, as in /proc, report a size of 0 but have content.
      const { start, end } = range ?? { start: 0, end: size > 0 ? size : undefined }
      await send(file, response, start, end)
    } finally {
      await file.close()
    }
  }

/** Sends a part of the file. The next block is read while one is being sent. */
const send = async (
  file: FileHandle,
  response: ServerResponse,
  start: number,
  end = Number.POSITIVE_INFINITY,
): Promise<void> => {
  const sender = new Sender(response)
  const blocks = [0, 1].map(() =>
    Buffer.allocUnsafe(Math.min(BLOCK_BYTES, Math.max(end - start, 1))),
  )
  let sent: Promise<void> = Promise.resolve()
  for (let at = start, turn = 0; at < end; turn ^= 1) {
    const block = blocks[turn] as Buffer
    const { bytesRead } = await file.read(block, 0, Math.min(block.length, end - at), at)
    await sent
    if (bytesRead === 0) {
      // The file got shorter after its length had been sent.
      if (end !== Number.POSITIVE_INFINITY) throw new BerthError("files.failed", "the file shrank")
      break
    }
    sent = sender.write(block.subarray(0, bytesRead))
    sent.catch(() => {})
    at += bytesRead
  }
  await sent
  response.end()
}

const refuseRange = (response: ServerResponse, size: number): void => {
  const error = new BerthError("files.range_unsatisfiable", "the file has no such bytes", {
    details: { size },
  })
  const headers = { "content-type": "application/json", "content-range": `bytes */${size}` }
  response.writeHead(error.status, headers).end(JSON.stringify(toWireError(error)))
}
