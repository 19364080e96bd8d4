import { constants } from "node:fs"
import { lstat, open, opendir, readlink } from "node:fs/promises"
import { sendJson } from "../../features/body.ts"
import type { HttpCall } from "../../features/feature.ts"
import { joinBytes, locate } from "./bytes.ts"
import { extract } from "./extract.ts"
import { attempt, systemCode, wrongKind } from "./failure.ts"
import { readQuery } from "./query.ts"
import { Sender } from "./send.ts"
import { BLOCK_BYTES, paddingOf, TAR, writeHeader } from "./tar/header.ts"
import type { Places } from "./write.ts"

/** Small pieces are sent together. */
const BATCH_BYTES = 256 * 1024

/** `PUT /files/archive` */
export const putArchive =
  ({ workspace, parts }: Places) =>
  async ({ request, response, query }: HttpCall): Promise<void> => {
    const { path } = readQuery(query, {})
    const folder = locate(path, workspace)
    const chunks = request.iterator({ destroyOnReturn: false })
    sendJson(response, 200, {
      entries: await attempt("extract", path, () => extract(folder, chunks, parts)),
    })
  }

/** `GET /files/archive` */
export const getArchive =
  (workspace: string) =>
  async ({ response, query }: HttpCall): Promise<void> => {
    const { path } = readQuery(query, {})
    const folder = locate(path, workspace)
    const found = await attempt("archive", path, async () => {
      const top = await open(folder, constants.O_RDONLY | constants.O_NONBLOCK)
      try {
        return await top.stat()
      } finally {
        await top.close()
      }
    })
    if (!found.isDirectory()) throw wrongKind(path, "file", "directory")
    const sender = new Sender(response)
    await attempt("archive", path, async () => {
      for await (const bytes of batched(archiveOf(folder, Buffer.alloc(0)))) {
        // Not before: what goes wrong until then is told in words.
        if (!response.headersSent) response.writeHead(200, { "content-type": "application/x-tar" })
        await sender.write(bytes)
      }
    })
    response.end()
  }

/** What goes away meanwhile is left out, and so is what is neither file, directory nor link. */
async function* archiveOf(folder: Buffer, within: Buffer): AsyncGenerator<Buffer> {
  yield* entriesOf(folder, within)
  // Two empty blocks are the end.
  yield Buffer.alloc(2 * BLOCK_BYTES)
}

async function* entriesOf(folder: Buffer, within: Buffer): AsyncGenerator<Buffer> {
  // @types/node knows names as text only.
  const names = await opendir(folder as unknown as string, { encoding: "buffer" as never })
  for await (const entry of names) {
    const own = entry.name as unknown as Buffer
    const name = within.length === 0 ? own : joinBytes(within, own)
    const path = joinBytes(folder, own)
    try {
      yield* entryOf(path, name)
    } catch (thrown) {
      if (!LEFT_OUT.has(systemCode(thrown) ?? "")) throw thrown
    }
  }
}

/** Gone, replaced or closed to the user. Anything else would be missing without a word. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "ENOENT",
  "ENOTDIR",
  "ELOOP",
  "ENXIO",
  "EACCES",
  "EPERM",
])

async function* entryOf(path: Buffer, name: Buffer): AsyncGenerator<Buffer> {
  const found = await lstat(path)
  const { uid, gid, mode, mtimeMs } = found
  const none = Buffer.alloc(0)
  const header = { uid, gid, mode: mode & 0o7777, modifiedAtMs: mtimeMs, size: 0, target: none }
  if (found.isDirectory()) {
    yield writeHeader({ ...header, type: TAR.directory, name: Buffer.concat([name, SLASH]) })
    yield* entriesOf(path, name)
  } else if (found.isSymbolicLink()) {
    const target = await readlink(path, { encoding: "buffer" })
    yield writeHeader({ ...header, type: TAR.link, name, target })
  } else if (found.isFile()) yield* fileOf(path, name, header)
}

const SLASH = Buffer.from("/")

type Header = Omit<Parameters<typeof writeHeader>[0], "type" | "name" | "size">

/** As long as its header says, whatever happens to it meanwhile. */
async function* fileOf(path: Buffer, name: Buffer, header: Header): AsyncGenerator<Buffer> {
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
  const file = await open(path, flags)
  try {
    const { size } = await file.stat()
    yield writeHeader({ ...header, type: TAR.file, name, size })
    for (let left = size; left > 0; ) {
      const block = Buffer.allocUnsafe(Math.min(left, BATCH_BYTES))
      const { bytesRead } = await file.read(block, 0, block.length).catch(() => ({ bytesRead: 0 }))
      if (bytesRead === 0) block.fill(0)
      const part = bytesRead === 0 ? block : block.subarray(0, bytesRead)
      left -= part.length
      yield part
    }
    yield Buffer.alloc(paddingOf(size))
  } finally {
    await file.close()
  }
}

async function* batched(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let batch: Buffer[] = []
  let bytes = 0
  for await (const piece of pieces) {
    batch.push(piece)
    bytes += piece.length
    if (bytes < BATCH_BYTES) continue
    yield Buffer.concat(batch)
    batch = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(batch)
}
