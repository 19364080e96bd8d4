import { type BigIntStats, closeSync, constants, fstatSync, opendirSync, openSync } from "node:fs"
import type { Levels } from "./levels.ts"
import { openPending } from "./pending.ts"

export const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

export interface OpenDirectory {
  readonly descriptor: number
  /** The depth; 0 is the tree's root. */
  readonly depth: number
  readonly name: Buffer
  readonly stats: BigIntStats
}

/** Visits everything in a tree, a directory's entries before those of the directories in it. */
export interface Visitor {
  enter(directory: OpenDirectory): void
  /** Returns true if the entry is a directory, which is then entered, too. */
  entry(directory: OpenDirectory, name: Buffer): boolean
  /** Called after all entries of a directory, unless the directory was removed meanwhile. */
  listed?(directory: OpenDirectory): void
}

export interface Descent {
  readonly tree: string
  /** A name that does not exist, for a file that holds what does not fit into memory. */
  readonly spill: string
  readonly levels: Levels
}

/**
 * Visits everything in a tree, without following links, with no more than two of its directories open and no path of
 * more than one name. Returns whether a directory was moved meanwhile, as a running sandbox does: the rest is not visited.
 */
export const descend = ({ tree, spill, levels }: Descent, visitor: Visitor): boolean => {
  const pending = openPending(spill)
  const visit = (directory: OpenDirectory): void => {
    levels.enter(directory.depth, directory.name, directory.stats.ino)
    visitor.enter(directory)
    const isWhole = listEach(directory.descriptor, (name) => {
      if (visitor.entry(directory, name)) pending.push(directory.depth + 1, name)
    })
    if (isWhole) visitor.listed?.(directory)
  }
  let current = openSync(tree, DIRECTORY)
  let depth = 0
  try {
    visit({ descriptor: current, depth, name: Buffer.alloc(0), stats: statsOf(current) })
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      for (; depth >= next.depth; depth -= 1) {
        const above = openDirectory(current, PARENT)
        if (above === undefined) return true
        closeSync(current)
        current = above
        // The parent may be another directory by now, even one outside of the tree.
        if (statsOf(current).ino !== levels.inodeAt(depth - 1)) return true
      }
      const entered = openDirectory(current, next.name)
      if (entered === undefined) continue
      closeSync(current)
      current = entered
      depth = next.depth
      visit({ descriptor: current, depth, name: next.name, stats: statsOf(current) })
    }
    return false
  } finally {
    closeSync(current)
    pending.close()
  }
}

/** The directory of this name; undefined if there is none, or a link in its place. */
export const openDirectory = (directory: number, name: Buffer): number | undefined =>
  unlessGone(() => openSync(below(directory, name), DIRECTORY))

/** Calls back with each name in an open directory. Returns false if the directory was removed before the last. */
export const listEach = (directory: number, tell: (name: Buffer) => void): boolean => {
  const names = unlessGone(() =>
    opendirSync(`/proc/self/fd/${directory}`, { encoding: "buffer" as never, bufferSize: 256 }),
  )
  if (names === undefined) return false
  try {
    for (;;) {
      const entry = unlessGone(() => names.readSync())
      if (entry === undefined) return false
      if (entry === null) return true
      tell(entry.name as unknown as Buffer)
    }
  } finally {
    names.closeSync()
  }
}

/** The path of a name in an open directory: short for the kernel, however deep the directory is. */
export const below = (directory: number, name: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${directory}/`), name])

/** Errors that tell that a file is gone: a running sandbox removes and replaces files while they are looked at. */
const GONE = new Set(["ENOENT", "ENOTDIR", "ELOOP", "EINVAL"])

/** Looks at a file; undefined if it is gone, or is of another kind than expected. */
export const unlessGone = <Result>(look: () => Result): Result | undefined => {
  try {
    return look()
  } catch (thrown) {
    if (GONE.has(String((thrown as NodeJS.ErrnoException).code))) return undefined
    throw thrown
  }
}

export type Kind = "d" | "l" | "s" | "f"

export const kindOf = (stats: BigIntStats): Kind =>
  stats.isDirectory() ? "d" : stats.isSymbolicLink() ? "l" : stats.isSocket() ? "s" : "f"

const statsOf = (descriptor: number): BigIntStats => fstatSync(descriptor, { bigint: true })

const PARENT = Buffer.from("..")
