import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  type Stats,
} from "node:fs"
import { BerthError } from "@berth/protocol/errors"
import { MAX_FILE_PATH_BYTES } from "@berth/protocol/files-limits"
import { BATCH_BYTES } from "@berth/protocol/tar-batch"
import { BLOCK_BYTES, paddingOf, TAR, writeHeader } from "@berth/protocol/tar-header"
import { ofThisMachine } from "./of-this-machine.ts"
import type { CopyReport } from "./report.ts"

const A_DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY
/** Without O_NONBLOCK, a named pipe that has taken a file's place would be waited for. */
const A_FILE = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW

const SLASH = Buffer.from("/")

/** A folder that is being read, held open: its entries are reached through the descriptor. */
interface Level {
  readonly fd: number
  /** The path below the top, with a trailing slash. */
  readonly within: Buffer
  readonly names: Iterator<Buffer>
}

/**
 * Packs a folder of this machine, which the caller names and may read, into an archive. Links in it are packed as they
 * are, and none is followed, even if another process puts it there meanwhile. Entries that are neither file, folder nor
 * link are reported and left out.
 */
export function* pack(folder: string, report: CopyReport): Generator<Buffer> {
  const levels: Level[] = [levelOf(openSync(folder, A_DIRECTORY), Buffer.alloc(0))]
  try {
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      const { done, value: name } = level.names.next()
      if (done) {
        closeSync(level.fd)
        levels.pop()
        continue
      }
      const inner = yield* entryOf(level, name, folder, report)
      if (inner !== undefined) levels.push(inner)
    }
    // Two empty blocks are the end of the archive.
    yield Buffer.alloc(2 * BLOCK_BYTES)
  } finally {
    for (const { fd } of levels) closeSync(fd)
  }
}

const levelOf = (fd: number, within: Buffer): Level => {
  const names = readdirSync(`/proc/self/fd/${fd}`, { encoding: "buffer" })
  return { fd, within, names: names.values() }
}

/** Packs an entry; for a folder, returns the level to pack next. */
function* entryOf(
  { fd, within }: Level,
  own: Buffer,
  top: string,
  report: CopyReport,
): Generator<Buffer, Level | undefined> {
  const name = Buffer.concat([within, own])
  const shown = `${top.replace(/\/+$/, "")}/${name}`
  if (name.length > MAX_FILE_PATH_BYTES)
    throw new BerthError("input.usage", `a path below ${top} is longer than a sandbox takes`)
  const path = Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), own])
  try {
    const found = lstatSync(path)
    if (found.isDirectory()) {
      const inner = openSync(path, A_DIRECTORY | constants.O_NOFOLLOW)
      const below = Buffer.concat([name, SLASH])
      yield writeHeader({ ...headerOf(found), type: TAR.directory, name: below })
      report.copied()
      return levelOf(inner, below)
    }
    if (found.isSymbolicLink()) {
      const target = readlinkSync(path, { encoding: "buffer" })
      yield writeHeader({ ...headerOf(found), type: TAR.link, name, target })
      report.copied()
    } else if (found.isFile()) yield* fileOf(path, name, report)
    else report.leftOut({ path: shown, why: kindOf(found) })
  } catch (thrown) {
    throw ofThisMachine(thrown, shown)
  }
  return undefined
}

const headerOf = ({ mode, mtimeMs }: Stats) => ({
  mode: mode & 0o777,
  modifiedAtMs: mtimeMs,
  uid: 0,
  gid: 0,
  size: 0,
  target: Buffer.alloc(0),
})

const kindOf = (found: Stats): "pipe" | "socket" | "device" => {
  if (found.isFIFO()) return "pipe"
  return found.isSocket() ? "socket" : "device"
}

/** Packs a file, exactly as long as its header says, whatever happens to it meanwhile. */
function* fileOf(path: Buffer, name: Buffer, report: CopyReport): Generator<Buffer> {
  const fd = openSync(path, A_FILE)
  try {
    const found = fstatSync(fd)
    if (!found.isFile()) throw new BerthError("input.usage", `${name} has changed meanwhile`)
    yield writeHeader({ ...headerOf(found), type: TAR.file, name, size: found.size })
    for (let left = found.size; left > 0; ) {
      const block = Buffer.allocUnsafe(Math.min(left, BATCH_BYTES))
      const bytes = readSync(fd, block)
      const part = bytes === 0 ? block.fill(0) : block.subarray(0, bytes)
      left -= part.length
      report.passed(part.length)
      yield part
    }
    yield Buffer.alloc(paddingOf(found.size))
    report.copied()
  } finally {
    closeSync(fd)
  }
}
