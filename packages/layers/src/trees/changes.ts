import { type BigIntStats, closeSync, fstatSync, lstatSync, openSync, renameSync } from "node:fs"
import { join } from "node:path"
import {
  below,
  DIRECTORY,
  descend,
  kindOf,
  listEach,
  type OpenDirectory,
  openDirectory,
  unlessGone,
} from "./descent.ts"
import { openDirectorySet } from "./directory-set.ts"
import { openLevels } from "./levels.ts"
import { linkedFiles } from "./linked-files.ts"
import { openPathList } from "./path-list.ts"
import { SEEN_EVERY } from "./tally.ts"

/** The arguments of a comparison between a tree and its copy. */
export interface ChangesOrder {
  readonly tree: string
  readonly copy: string
  /** A name that does not exist, for a file that holds what does not fit into memory. */
  readonly spill: string
  /** A directory for the lists. */
  readonly lists: string
  /** An empty directory, into which entries are moved that the copy is not to have any more. */
  readonly removed: string
  /** The result of the previous round; null if the copy is empty. */
  readonly before: RoundBefore | null
}

export interface RoundBefore {
  /**
   * Files that were not changed since this time are in the copy as they are: every change or move of a file sets its
   * ctime.
   */
  readonly sinceNs: bigint
  /** The directories whose entries were looked at. A directory that is not among them was made or moved here since. */
  readonly directories: BigUint64Array<ArrayBuffer>
  /**
   * Whether something could not be copied. Entries that the copy lacks, or has in another form, are then copied again.
   */
  readonly isDoubtful: boolean
}

export interface Changes {
  /** The number of entries in the tree. */
  readonly entries: number
  /** The number of entries to copy: files, links and the like, without directories. */
  readonly files: number
  readonly bytes: number
  readonly directories: BigUint64Array<ArrayBuffer>
}

export type ChangesMessage =
  | { readonly seen: number }
  | { readonly tooDeep: true }
  | { readonly changes: Changes }

/** Thrown when directories are nested deeper than a path can be long. */
export class TooDeep extends Error {}

/** Lists of paths that programs copy, in this order. */
export const LISTS = {
  /** Copied by tar, which keeps links between files. */
  small: "small",
  /** Copied by cp: large files, whose blocks it can share, and sockets, which tar leaves out. */
  large: "large",
  /** Copied last: a new entry in a directory changes its times. */
  directories: "directories",
} as const

/** Files from this size on are "large": smaller ones cost more to open than to read. */
const LARGE_BYTES = 1024n * 1024n

/**
 * Compares a tree with its copy and lists what is to be copied. Entries that the tree no longer has are moved out of
 * the copy. A file is looked at in the copy only if it changed, so that most of a round costs one look at each file of
 * the tree.
 */
export const findChanges = (
  order: ChangesOrder,
  post: (message: ChangesMessage) => void,
): Changes => {
  const comparison = new TreeComparison(order, post)
  try {
    return comparison.run()
  } finally {
    comparison.close()
  }
}

/** One walk over a tree, beside its copy. */
class TreeComparison {
  readonly #order: ChangesOrder
  readonly #post: (message: ChangesMessage) => void
  readonly #levels = openLevels()
  readonly #known: ReturnType<typeof openDirectorySet>
  readonly #seen = openDirectorySet()
  readonly #linked = linkedFiles()
  readonly #lists: ReturnType<typeof openLists>
  readonly #copy: ReturnType<typeof openCopy>
  /** Whether each directory on the way down is listed already. */
  readonly #isListed: boolean[] = []
  #entries = 0
  #files = 0
  #bytes = 0

  constructor(order: ChangesOrder, post: (message: ChangesMessage) => void) {
    this.#order = order
    this.#post = post
    this.#known = openDirectorySet(order.before?.directories)
    this.#lists = openLists(order.lists)
    this.#copy = openCopy(order)
  }

  run(): Changes {
    const { tree, spill, before } = this.#order
    // If a directory was moved, the rest was not visited, and so is not among the directories that were seen.
    descend(
      { tree, spill, levels: this.#levels },
      {
        enter: (directory) => this.#enter(directory),
        entry: (directory, name) => this.#entry(directory, name),
        listed: ({ depth, stats }) => this.#seen.add(this.#levels.hashAt(depth), stats.ino),
      },
    )
    if (before !== null && this.#linked.isAny()) this.#listOtherNames()
    return {
      entries: this.#entries,
      files: this.#files,
      bytes: this.#bytes,
      directories: this.#seen.table,
    }
  }

  close(): void {
    this.#copy.close()
    this.#lists.close()
  }

  #enter({ descriptor, depth, name, stats }: OpenDirectory): void {
    this.#isListed[depth] = false
    const isKnown = depth === 0 || this.#known.has(this.#levels.hashAt(depth), stats.ino)
    const hadIt = this.#copy.enter(depth, name, isKnown)
    const isOther = this.#isDoubtful && !this.#copy.isLike(stats)
    const isChanged = !hadIt || this.#isNewer(stats) || isOther
    if (isChanged) this.#listDirectory(depth)
    if (!hadIt && depth > 0) this.#listDirectory(depth - 1)
    if (isChanged && hadIt)
      this.#copy.each((found) => {
        if (isMissing(descriptor, found)) this.#copy.remove(found)
      })
  }

  /** Takes one entry of a directory. Returns whether to descend into it. */
  #entry({ descriptor, depth }: OpenDirectory, name: Buffer): boolean {
    const stats = lookAt(descriptor, name)
    if (stats === undefined) return false
    this.#entries += 1
    if (this.#entries % SEEN_EVERY === 0) this.#post({ seen: this.#entries })
    if (kindOf(stats) === "d") return true
    if (!this.#isToCopy(depth, name, stats)) return false
    if (this.#copy.isAt(depth)) this.#copy.removeDirectory(name)
    this.#list(depth, name, stats)
    return false
  }

  /** Lists all names of each file that is copied, or its copy would have only some of them. */
  #listOtherNames(): void {
    const { tree, spill } = this.#order
    const entry = ({ descriptor, depth }: OpenDirectory, name: Buffer): boolean => {
      const stats = lookAt(descriptor, name)
      if (stats === undefined) return false
      if (kindOf(stats) === "d") return true
      if (stats.nlink > 1n && this.#linked.has(stats.ino)) this.#list(depth, name, stats)
      return false
    }
    const enter = ({ depth }: OpenDirectory): void => {
      this.#isListed[depth] = false
    }
    descend({ tree, spill, levels: this.#levels }, { enter, entry })
  }

  #list(depth: number, name: Buffer, stats: BigIntStats): void {
    const path = this.#levels.pathOf(depth, name) ?? tooDeep()
    const isAlone = stats.nlink === 1n
    if (!isAlone) this.#linked.add(stats.ino)
    const isForCp = stats.isSocket() || (stats.isFile() && isAlone && stats.size >= LARGE_BYTES)
    if (isForCp) this.#lists.large.add(path)
    else this.#lists.small.add(path)
    this.#files += 1
    if (stats.isFile()) this.#bytes += Number(stats.size)
    this.#listDirectory(depth)
  }

  #listDirectory(depth: number): void {
    if (this.#isListed[depth]) return
    this.#isListed[depth] = true
    this.#lists.directories.add(this.#levels.directoryAt(depth) ?? tooDeep())
  }

  #isToCopy(depth: number, name: Buffer, stats: BigIntStats): boolean {
    if (!this.#copy.isAt(depth) || this.#isNewer(stats)) return true
    return this.#isDoubtful && !this.#copy.hasLike(name, stats)
  }

  #isNewer({ ctimeNs }: BigIntStats): boolean {
    const { before } = this.#order
    return before === null || latestOf(ctimeNs) >= before.sinceNs
  }

  get #isDoubtful(): boolean {
    return this.#order.before?.isDoubtful === true
  }
}

/** Opens the lists of paths in a directory. */
const openLists = (directory: string) => {
  const small = openPathList(join(directory, LISTS.small))
  const large = openPathList(join(directory, LISTS.large))
  const directories = openPathList(join(directory, LISTS.directories))
  const close = () => {
    for (const list of [small, large, directories]) list.close()
  }
  return { small, large, directories, close }
}

/** Opens the copy, whose directories are walked beside those of the tree. */
const openCopy = ({ copy, removed }: ChangesOrder) => {
  let current = openSync(copy, DIRECTORY)
  let depth = 0
  let removals = 0
  const go = (to: number, at: number): void => {
    closeSync(current)
    current = to
    depth = at
  }
  const remove = (name: Buffer): void => {
    unlessGone(() => renameSync(below(current, name), join(removed, String(removals))))
    removals += 1
  }
  return {
    /**
     * Enters the copy's directory that corresponds to the tree's at that depth. Returns false if the copy does not have
     * it yet.
     */
    enter: (to: number, name: Buffer, isKnown: boolean): boolean => {
      if (to === 0) return true
      while (depth >= to) go(openDirectory(current, PARENT) ?? lost(copy), depth - 1)
      if (depth < to - 1) return false
      const found = isKnown ? openDirectory(current, name) : undefined
      if (found === undefined) {
        remove(name)
        return false
      }
      go(found, to)
      return true
    },
    /** Whether the copy is in the same directory as the tree. */
    isAt: (other: number): boolean => depth === other,
    isLike: (stats: BigIntStats): boolean => isAlike(fstatSync(current, { bigint: true }), stats),
    hasLike: (name: Buffer, stats: BigIntStats): boolean => {
      const found = lookAt(current, name)
      return found !== undefined && isAlike(found, stats)
    },
    each: (tell: (name: Buffer) => void): void => void listEach(current, tell),
    remove,
    removeDirectory: (name: Buffer): void => {
      const found = lookAt(current, name)
      if (found?.isDirectory()) remove(name)
    },
    close: () => closeSync(current),
  }
}

const NS_PER_S = 1_000_000_000n

/** The latest moment that a time can stand for: on a file system that keeps whole seconds, any in that second. */
const latestOf = (timeNs: bigint): bigint => (timeNs % NS_PER_S === 0n ? timeNs + NS_PER_S : timeNs)

/**
 * Whether a copy's attributes equal the original's. A directory's size does not count: it is an accident of the file
 * system.
 */
const isAlike = (copy: BigIntStats, original: BigIntStats): boolean =>
  copy.mode === original.mode &&
  copy.uid === original.uid &&
  copy.gid === original.gid &&
  copy.mtimeNs === original.mtimeNs &&
  (copy.isDirectory() || copy.size === original.size)

const lookAt = (directory: number, name: Buffer): BigIntStats | undefined =>
  unlessGone(() => lstatSync(below(directory, name), { bigint: true }))

const isMissing = (directory: number, name: Buffer): boolean =>
  lookAt(directory, name) === undefined

const tooDeep = (): never => {
  throw new TooDeep("a path is too long for the programs that copy")
}

const lost = (copy: string): never => {
  throw new Error(`the directories of ${copy} were changed by another`)
}

const PARENT = Buffer.from("..")
