import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  opendirSync,
  openSync,
  readlinkSync,
  readSync,
  type Stats,
} from "node:fs"
import { open } from "node:fs/promises"
import type { LeftOut } from "@berth/protocol/files"
import { BATCH_BYTES, batched } from "@berth/protocol/tar-batch"
import { BLOCK_BYTES, paddingOf, TAR, writeComment, writeHeader } from "@berth/protocol/tar-header"
import { archiveQuery } from "../../checks/forms/files.ts"
import { sendJson } from "../../features/body.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { joinBytes, locate, toWire } from "./bytes.ts"
import { extract } from "./extract.ts"
import { attempt, systemCode, wrongKind } from "./failure.ts"
import { Sender } from "./send.ts"
import type { Places } from "./write.ts"

/** `PUT /files/archive` */
export const putArchive =
  ({ workspace, parts }: Places) =>
  async ({ request, response, query }: HttpCall): Promise<void> => {
    const { path } = readQuery(query, archiveQuery)
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
    const { path } = readQuery(query, archiveQuery)
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
        // The head is sent with the first batch, so that an earlier failure can still be sent as an error.
        if (!response.headersSent) response.writeHead(200, { "content-type": "application/x-tar" })
        await sender.write(bytes)
      }
    })
    response.end()
  }

/**
 * Writes a tar archive. Files that disappear meanwhile are left out. Entries that are neither file, directory nor link,
 * or that the user may not read, are left out as well, and a comment in the archive says so. Calls are synchronous, and
 * other requests run after each batch: with small files, waiting for each call would take most of the time.
 */
function* archiveOf(folder: Buffer, within: Buffer): Generator<Buffer> {
  yield* entriesOf(folder, within)
  // Two empty blocks end the archive.
  yield Buffer.alloc(2 * BLOCK_BYTES)
}

function* entriesOf(folder: Buffer, within: Buffer): Generator<Buffer> {
  for (const own of namesIn(folder)) {
    const name = within.length === 0 ? own : joinBytes(within, own)
    const path = joinBytes(folder, own)
    try {
      yield* entryOf(path, name)
    } catch (thrown) {
      const code = systemCode(thrown) ?? ""
      if (DENIED.has(code)) yield leftOut(name, "unreadable")
      else if (!GONE.has(code)) throw thrown
    }
  }
}

/** Errors of an entry that disappeared or was replaced. */
const GONE: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "ELOOP", "ENXIO"])
const DENIED: ReadonlySet<string> = new Set(["EACCES", "EPERM"])

const leftOut = (name: Buffer, why: LeftOut["why"]): Buffer => {
  const said: LeftOut = { path: toWire(name), why }
  return writeComment(Buffer.from(JSON.stringify(said)))
}

function* entryOf(path: Buffer, name: Buffer): Generator<Buffer> {
  const found = lstatSync(path)
  const { uid, gid, mode, mtimeMs } = found
  const none = Buffer.alloc(0)
  const header = { uid, gid, mode: mode & 0o7777, modifiedAtMs: mtimeMs, size: 0, target: none }
  if (found.isDirectory()) {
    yield writeHeader({ ...header, type: TAR.directory, name: Buffer.concat([name, SLASH]) })
    yield* entriesOf(path, name)
  } else if (found.isSymbolicLink()) {
    const target = readlinkSync(path, { encoding: "buffer" })
    yield writeHeader({ ...header, type: TAR.link, name, target })
  } else if (found.isFile()) yield* fileOf(path, name, header)
  else yield leftOut(name, otherKind(found))
}

const otherKind = (found: Stats): LeftOut["why"] => {
  if (found.isFIFO()) return "pipe"
  return found.isSocket() ? "socket" : "device"
}

const SLASH = Buffer.from("/")

type Header = Omit<Parameters<typeof writeHeader>[0], "type" | "name" | "size">

/** Writes exactly as many bytes as the header says, even if the file changes meanwhile. */
function* fileOf(path: Buffer, name: Buffer, header: Header): Generator<Buffer> {
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW
  const file = openSync(path, flags)
  try {
    const { size } = fstatSync(file)
    yield writeHeader({ ...header, type: TAR.file, name, size })
    for (let left = size; left > 0; ) {
      const block = Buffer.allocUnsafe(Math.min(left, BATCH_BYTES))
      const bytes = readUpTo(file, block)
      const part = bytes === 0 ? block.fill(0) : block.subarray(0, bytes)
      left -= part.length
      yield part
    }
    yield Buffer.alloc(paddingOf(size))
  } finally {
    closeSync(file)
  }
}

/** Reads the next bytes. Returns 0 if the file cannot be read any more: its header has been sent already. */
const readUpTo = (file: number, block: Buffer): number => {
  try {
    return readSync(file, block)
  } catch {
    return 0
  }
}

/** Reads the names a few at a time, however many there are. */
function* namesIn(folder: Buffer): Generator<Buffer> {
  // @types/node knows names as text only.
  const names = opendirSync(folder as unknown as string, { encoding: "buffer" as never })
  try {
    for (let entry = names.readSync(); entry !== null; entry = names.readSync())
      yield entry.name as unknown as Buffer
  } finally {
    names.closeSync()
  }
}
