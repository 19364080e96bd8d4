import { closeSync, fsyncSync, lstatSync, mkdirSync, openSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { judgeOwner, judgeWriters } from "./judge.ts"
import { refuse } from "./refuse.ts"
import { ownJudge, type Reached, walk } from "./walk.ts"

const ONLY_OWNER = 0o700

/** Makes a directory that nobody but root and this user can change, and those above it; one that exists is judged. */
export const ensureOwnedDirectory = (path: string): void => {
  // Each turn makes one directory, and looks at the whole path again.
  while (!isOwnedDirectory(path)) walk(path, { followLast: true }, makeNext)
}

/** For readers: refuses a directory that others could have filled. One that is missing or closed to them is their own affair. */
export const refuseForeign = (path: string): void => {
  try {
    isOwnedDirectory(path)
  } catch (thrown) {
    if (thrown instanceof BerthError) throw thrown
  }
}

/** Judges a directory, the way to it, and who owns its entries. False where there is none. */
const isOwnedDirectory = (path: string): boolean => {
  const judge = ownJudge()
  return walk(path, { followLast: true, judge }, ({ at, stats }) => {
    if (stats === undefined) return false
    if (!stats.isDirectory()) throw notDirectory(path)
    refuse(path, judgeWriters(stats, path, judge))
    for (const entry of entriesOf(at)) {
      const found = lstatSync(join(at, entry), { throwIfNoEntry: false })
      if (found !== undefined) refuse(path, judgeOwner(found, join(path, entry), judge))
    }
    return true
  })
}

/** Nobody lists a directory that may only be passed through, and nobody plants entries in it either. */
const entriesOf = (directory: string): string[] => {
  try {
    return readdirSync(directory)
  } catch (thrown) {
    if (errnoOf(thrown) === "EACCES") return []
    throw thrown
  }
}

const makeNext = ({ at, stats, directory, name, isDangling }: Reached): void => {
  if (stats !== undefined) return
  if (isDangling) throw dangling(join(directory, name))
  try {
    mkdirSync(at, { mode: ONLY_OWNER })
  } catch (thrown) {
    // Another process may have made it in between.
    if (errnoOf(thrown) !== "EEXIST") throw thrown
  }
  syncIfReadable(dirname(at))
}

/** A directory may allow new names and yet not be read, and then not be synced either. */
const syncIfReadable = (directory: string): void => {
  try {
    syncDirectory(directory)
  } catch (thrown) {
    if (errnoOf(thrown) !== "EACCES") throw thrown
  }
}

/** Makes a new name in the directory survive a power loss. */
export const syncDirectory = (directory: string): void => {
  const handle = openSync(directory, "r")
  try {
    fsyncSync(handle)
  } finally {
    closeSync(handle)
  }
}

const errnoOf = (thrown: unknown): unknown => (thrown as NodeJS.ErrnoException).code

const dangling = (path: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`a link leads to ${path}, where nothing is`), { code: "ENOENT" })

const notDirectory = (path: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${path} is not a directory`), { code: "ENOTDIR" })
