import type { FileHandle } from "node:fs/promises"
import { toWireError } from "@berth/protocol/errors"
import type { WrittenFiles } from "@berth/protocol/files"
import * as forms from "../../checks/forms/files.ts"
import { readJson, sendJson } from "../../features/body.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { fromWire, locate } from "./bytes.ts"
import { entryAt } from "./entry.ts"
import { attempt, failure } from "./failure.ts"
import type { Parts } from "./parts.ts"
import { placeFile } from "./place.ts"

/** Data that arrives during a write is written together up to this size. A request comes in chunks of 64 KiB. */
const BATCH_BYTES = 1024 * 1024

export interface Places {
  readonly workspace: string
  readonly parts: Parts
}

/** `PUT /files/content` */
export const writeContent =
  ({ workspace, parts }: Places) =>
  async ({ request, response, query }: HttpCall): Promise<void> => {
    const { path, mode, parents } = readQuery(query, forms.writeQuery)
    const target = locate(path, workspace)
    const entry = await attempt("write", path, async () => {
      await placeFile(target, { name: path, mode, parents, durable: true, parts }, (file) =>
        // The request is left open after a failure, so that its rest can be read and the error be sent.
        writeStream(file, request.iterator({ destroyOnReturn: false })),
      )
      return await entryAt(target, path, { follow: true })
    })
    sendJson(response, 200, entry)
  }

/** `POST /files/write` */
export const writeFiles =
  ({ workspace, parts }: Places) =>
  async ({ request, response }: HttpCall): Promise<void> => {
    const { files, parents } = await readJson(request, forms.writeFiles)
    const written: WrittenFiles["files"] = []
    for (const { path, content, mode } of files) {
      try {
        const bytes = fromWire(content)
        await placeFile(
          locate(path, workspace),
          { name: path, mode, parents, durable: true, parts },
          (file) => writeAll(file, [bytes]),
        )
        written.push({ path })
      } catch (thrown) {
        written.push({ path, error: { ...toWireError(failure(thrown, "write", path)) } })
      }
    }
    sendJson(response, 200, { files: written } satisfies WrittenFiles)
  }

export const writeStream = async (
  file: FileHandle,
  chunks: AsyncIterable<Buffer>,
): Promise<void> => {
  let writing: Promise<void> = Promise.resolve()
  let batch: Buffer[] = []
  let bytes = 0
  const flush = async () => {
    await writing
    writing = writeAll(file, batch)
    writing.catch(() => {})
    batch = []
    bytes = 0
  }
  try {
    for await (const chunk of chunks) {
      batch.push(chunk)
      bytes += chunk.length
      if (bytes >= BATCH_BYTES) await flush()
    }
    await flush()
  } finally {
    await writing
  }
}

/** Writes all chunks. A disk that fills up takes a part, and refuses the rest. */
const writeAll = async (file: FileHandle, chunks: readonly Buffer[]): Promise<void> => {
  const total = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
  if (total === 0) return
  let { bytesWritten } = await file.writev(chunks)
  if (bytesWritten === total) return
  const rest = Buffer.concat(chunks)
  while (bytesWritten < total)
    bytesWritten += (await file.write(rest, bytesWritten, total - bytesWritten)).bytesWritten
}
