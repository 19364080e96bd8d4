import { closeSync, constants, fstatSync, openSync, type Stats } from "node:fs"
import { join } from "node:path"
import type { Judge } from "./judge.ts"
import { refuse } from "./refuse.ts"
import { O_PATH, ownJudge, walk } from "./walk.ts"

/** An open directory of any user: it stays the same even if its path leads elsewhere later. */
export interface HeldDirectory {
  readonly descriptor: number
  /** The path without links. */
  readonly path: string
  readonly stats: Stats
}

/**
 * Opens a directory of any user, if nobody but root, the caller and its own owner decides where its path leads: a link
 * or a directory of a third user on the way is refused, and so is a directory that every user may write to. Members of
 * a group that may write to a directory on the way count as people who work together.
 */
export const openOfOwner = (wanted: string): HeldDirectory => {
  const own = ownJudge()
  const passed = new Map<number, string>()
  const judge: Judge = {
    uid: own.uid,
    isPrivateGroup: () => true,
    trusts: () => true,
  }
  const note = (stats: Stats, path: string) => {
    if (!passed.has(stats.uid)) passed.set(stats.uid, path)
  }
  return walk(
    wanted,
    { followLast: true, judge, onPassed: note },
    ({ at, directory, name, stats }) => {
      const path = join(directory, name)
      if (stats === undefined) throw missing(path)
      const descriptor = openSync(at, O_PATH | constants.O_NOFOLLOW | constants.O_DIRECTORY)
      try {
        const opened = fstatSync(descriptor)
        for (const [uid, part] of passed) {
          if (uid === 0 || uid === own.uid || uid === opened.uid) continue
          refuse(wanted, {
            problem: `${part} belongs to user ${uid}, and what it leads to to user ${opened.uid}`,
            mend: `name the directory itself, at a place that nobody but root and user ${opened.uid} can change`,
          })
        }
        return { descriptor, path, stats: opened }
      } catch (thrown) {
        closeSync(descriptor)
        throw thrown
      }
    },
  )
}

const missing = (path: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${path} does not exist`), { code: "ENOENT" })
