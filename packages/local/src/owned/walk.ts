import { closeSync, constants, fstatSync, openSync, readlinkSync, type Stats } from "node:fs"
import { join } from "node:path"
import { isSticky, type Judge, judgeOwner, judgeWriters } from "./judge.ts"
import { isPrivateGroup } from "./private-group.ts"
import { refuse } from "./refuse.ts"

/** Linux's own flag, which Node does not name: a descriptor that stands for a place and opens nothing there. */
export const O_PATH = 0o10000000

/** The most links that are followed: as many as the kernel follows. */
const MAX_LINKS = 40

/**
 * An entry of a directory, both checked. It is reached through descriptors, so that nobody can exchange it meanwhile.
 */
export interface Reached {
  /** The directory, with every link on the way resolved. */
  readonly directory: string
  readonly name: string
  /** The path that opens the entry itself: below the directory's descriptor, valid until the walk ends. */
  readonly at: string
  /** Undefined where nothing has that name; the path may go on with others. */
  readonly stats: Stats | undefined
  /** Nothing has that name, and a link on the way leads to it. */
  readonly isDangling: boolean
}

export interface WalkOptions {
  /** Whether a link in the last place is followed. */
  readonly followLast: boolean
  readonly judge?: Judge
  /** Called with each link and directory on the way, and with nothing else. */
  readonly onPassed?: (stats: Stats, path: string) => void
}

/** The caller's own judge: trusts root and the user that this process acts as. */
export const ownJudge = (): Judge => ({ uid: process.geteuid?.() ?? 0, isPrivateGroup })

/**
 * Walks along an absolute path, one component after another, each looked up in the descriptor of the directory before
 * it. Refuses where somebody other than root and the caller could exchange a component: a directory or link of another
 * user, or a directory that others may write to, unless it is sticky and the next component belongs to root or the
 * caller.
 */
export const walk = <Result>(
  path: string,
  { followLast, judge = ownJudge(), onPassed }: WalkOptions,
  act: (reached: Reached) => Result,
): Result => {
  const rest = namesOf(path)
  let links = 0
  /** The number of remaining names that come from links. */
  let fromLinks = 0
  let here = openPlace("/")
  try {
    let directory = "/"
    judgeDirectory(path, directory, here, judge)
    for (;;) {
      const name = rest.shift() ?? "."
      const isLast = rest.length === 0
      const isOfLink = fromLinks > 0
      if (isOfLink) fromLinks -= 1
      const at = `/proc/self/fd/${here}/${name}`
      const place = tryOpenPlace(at)
      if (place === undefined)
        return act({ directory, name, at, stats: undefined, isDangling: isOfLink })
      let isKept = false
      try {
        const stats = fstatSync(place)
        const full = join(directory, name)
        refuse(path, judgeOwner(stats, full, judge))
        if (stats.isSymbolicLink()) {
          if (isLast && !followLast) return act({ directory, name, at, stats, isDangling: false })
          onPassed?.(stats, full)
          links += 1
          if (links > MAX_LINKS) throw tooManyLinks(path)
          const target = readlinkSync(at)
          const names = namesOf(target)
          fromLinks += names.length
          rest.unshift(...names)
          if (!target.startsWith("/")) continue
          closeSync(here)
          here = openPlace("/")
          directory = "/"
          continue
        }
        if (isLast) return act({ directory, name, at, stats, isDangling: false })
        if (!stats.isDirectory()) throw notDirectory(full)
        judgeDirectory(path, full, place, judge)
        onPassed?.(stats, full)
        closeSync(here)
        here = place
        isKept = true
        directory = full
      } finally {
        if (!isKept) closeSync(place)
      }
    }
  } finally {
    closeSync(here)
  }
}

/** Checks a directory. In a sticky one, each entry is checked by its owner instead. */
const judgeDirectory = (wanted: string, path: string, place: number, judge: Judge): void => {
  const stats = fstatSync(place)
  refuse(wanted, judgeOwner(stats, path, judge))
  if (!isSticky(stats)) refuse(wanted, judgeWriters(stats, path, judge))
}

const namesOf = (path: string): string[] => path.split("/").filter((name) => name && name !== ".")

const openPlace = (path: string): number => openSync(path, O_PATH | constants.O_NOFOLLOW)

const tryOpenPlace = (path: string): number | undefined => {
  try {
    return openPlace(path)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw thrown
  }
}

const failure = (code: string, message: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${code}: ${message}`), { code, errno: -1, syscall: "open" })

const notDirectory = (path: string) => failure("ENOTDIR", `${path} is not a directory`)
const tooManyLinks = (path: string) => failure("ELOOP", `${path} leads through too many links`)
