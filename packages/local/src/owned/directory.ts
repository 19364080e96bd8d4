import { closeSync, fsyncSync, lstatSync, mkdirSync, openSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { judgeOwner, judgeWriters } from "./judge.ts"
import { refuse } from "./refuse.ts"
import { ownJudge, type Reached, walk } from "./walk.ts"

const ONLY_OWNER = 0o700

/** Makes a directory that nobody but root and this user can change, and its parents; an existing one is checked. */
export const ensureOwnedDirectory = (path: string): void => {
  // Each turn makes one directory, and checks the whole path again.
  while (!isOwnedDirectory(path)) walk(path, { followLast: true }, makeNext)
}

/** Refuses, for readers, a directory that others could have filled. A missing or unreadable one is left to them. */
export const refuseForeign = (path: string): void => {
  try {
    isOwnedDirectory(path)
  } catch (thrown) {
    if (thrown instanceof BerthError) throw thrown
  }
}

/** Checks a directory, the path to it, and the owners of its entries. Returns false where there is none. */
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

/**
 * The entries of a directory. One that cannot be listed, but only passed through, counts as empty: nobody can plant
 * entries in it.
 */
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

/**
 * Syncs a directory if it can be read: one may allow new names and yet not be readable, and then it cannot be synced
 * either.
 */
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
