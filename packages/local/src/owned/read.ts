import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs"
import { judgeOwner, judgeWriters } from "./judge.ts"
import { refuse } from "./refuse.ts"
import { ownJudge, walk } from "./walk.ts"

/** A file's text, with owner, group and mode of the very file that it was read from. */
export interface OwnedText {
  readonly text: string
  readonly uid: number
  readonly gid: number
  readonly mode: number
}

/** The flags do not wait for a writer if the file is a pipe. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY

export interface ReadOptions {
  /** Whether a link in the last place is followed. */
  readonly followLast: boolean
  /** A larger file is refused. Default: there is no bound. */
  readonly maxBytes?: number
}

/**
 * Reads a file that only root and this user can have written or put there. Undefined where there is none; errors of the
 * system are thrown as they are.
 */
export const readOwned = (
  path: string,
  { followLast, maxBytes = Number.POSITIVE_INFINITY }: ReadOptions,
): OwnedText | undefined => {
  const judge = ownJudge()
  return walk(path, { followLast, judge }, ({ at, stats }) => {
    if (stats === undefined) return undefined
    const file = openSync(at, FLAGS)
    try {
      const opened = fstatSync(file)
      if (!opened.isFile()) throw notFile(path)
      refuse(path, judgeOwner(opened, path, judge) ?? judgeWriters(opened, path, judge))
      const { uid, gid, mode, size } = opened
      if (size > maxBytes) throw tooLarge(path, size, maxBytes)
      return { text: readFileSync(file, "utf8"), uid, gid, mode: mode & 0o7777 }
    } finally {
      closeSync(file)
    }
  })
}

const tooLarge = (path: string, size: number, maxBytes: number): NodeJS.ErrnoException =>
  Object.assign(new Error(`${path} has ${size} bytes, more than ${maxBytes}`), { code: "EFBIG" })

const notFile = (path: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${path} is not a regular file`), { code: "EISDIR" })
