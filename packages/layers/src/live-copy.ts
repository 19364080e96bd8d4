import { mkdir, statfs } from "node:fs/promises"
import { join } from "node:path"
import { removeSmallTree } from "@berth/host/remove-tree"
import { BerthError } from "@berth/protocol/errors"
import type { TreePaths } from "./io/layout.ts"
import { nextStep } from "./rounds.ts"
import type { Context } from "./store/context.ts"
import type { Changes, RoundBefore } from "./trees/changes.ts"
import { copyTree } from "./trees/copy.ts"
import { canShutLinks, copyListed } from "./trees/copy-listed.ts"
import { flushTree } from "./trees/flush.ts"

/** Progress of the copy of a running sandbox's files. */
export interface CopyProgress {
  /** The sandbox runs while its files are copied, then stands still for the rest. */
  readonly stage: "copying" | "frozen"
  readonly files: number
  readonly of: number
}

export interface CopyStep {
  readonly signal: AbortSignal
  onProgress(progress: CopyProgress): void
}

/** A copy of a tree in which a sandbox works. */
export interface LiveCopy {
  /** Copies while the sandbox runs, until little is left. */
  copy(step: CopyStep): Promise<void>
  /** Copies the rest while the sandbox stands still: then the copy equals the tree. */
  finish(step: CopyStep): Promise<void>
  /** The number of entries in the tree, after `finish`; undefined if they were not counted. */
  entries(): number | undefined
  /** Removes temporary files of the copy. */
  clean(signal: AbortSignal | undefined): Promise<void>
}

/**
 * File systems (as statfs calls them: ext, XFS, Btrfs, F2FS, bcachefs) that set a file's ctime when a page of it is
 * written through a mapping for the first time since it was last written to the disk. Others do not tell of such a
 * write.
 */
const TELL_OF_MAPPED_WRITES = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0xca451a4e])

/** The times of files are those of the clock's last tick, and ticks come at most ten milliseconds apart. */
export const CLOCK_SLACK_MS = 100

/**
 * A step larger than the clock's own correction: somebody has set the clock, and times before and after do not compare.
 */
const CLOCK_STEP_MS = 500

export const openLiveCopy = (
  { compare, at }: Pick<Context, "compare" | "at">,
  tree: string,
  draft: TreePaths,
): LiveCopy => {
  const copy = draft.tree
  /** The lists lie beside the copy, and are removed before it becomes a layer. */
  const aside = join(draft.directory, "copying")
  const lists = join(aside, "lists")
  const clock = () => Date.now() - performance.now()
  const clockAtFirst = clock()
  let before: RoundBefore | null = null
  let previous: Changes | undefined
  let counted: number | undefined
  let removals = 0

  const look = async ({ signal, onProgress }: CopyStep, stage: CopyProgress["stage"]) => {
    removals += 1
    const removed = join(aside, `removed-${removals}`)
    await mkdir(removed)
    const seen = (of: number) => onProgress({ stage, files: 0, of })
    return await compare({ tree, copy, lists, removed, before }, { signal, onSeen: seen })
  }
  const copyAll = async (
    found: Changes,
    { signal, onProgress }: CopyStep,
    stage: CopyProgress["stage"],
  ) => {
    const onCopied = (files: number) =>
      onProgress({ stage, files: Math.min(files, found.files), of: found.files })
    await copyListed({ tree, copy, lists }, { signal, onCopied })
  }
  /** Copies the changes, and returns whether all were copied: a running sandbox removes files before they are read. */
  const tryCopyAll = async (found: Changes, step: CopyStep): Promise<boolean> => {
    try {
      await copyAll(found, step, "copying")
      return true
    } catch (thrown) {
      if (!(thrown instanceof BerthError) || thrown.code !== "layers.io") throw thrown
      return false
    }
  }
  return {
    entries: () => counted,
    clean: (signal) => removeSmallTree(aside, signal),
    copy: async (step) => {
      const { signal } = step
      await mkdir(lists, { recursive: true })
      await mkdir(copy)
      for (let round = 1; ; round += 1) {
        const sinceNs = BigInt(Date.now() - CLOCK_SLACK_MS) * 1_000_000n
        const found = await look(step, "copying")
        if (nextStep({ round, found, previous }) === "freeze") return
        if (round === 1 && !(await canBeFollowed(tree, lists, signal))) return
        await at("snapshot.listed")
        // After the flush, a page that is written to a file through a mapping sets the file's ctime.
        await flushTree(tree, signal)
        const isWhole = await tryCopyAll(found, step)
        before = { sinceNs, directories: found.directories, isDoubtful: !isWhole }
        previous = found
      }
    },
    finish: async (step) => {
      if (before === null || Math.abs(clock() - clockAtFirst) > CLOCK_STEP_MS) {
        const onCopied = (files: number) => step.onProgress({ stage: "frozen", files, of: files })
        await removeSmallTree(copy, step.signal)
        return await copyTree(tree, copy, { signal: step.signal, onCopied })
      }
      const found = await look(step, "frozen")
      await copyAll(found, step, "frozen")
      counted = found.entries
    },
  }
}

/** Whether a copy of a tree that changes meanwhile can be brought up to date. */
const canBeFollowed = async (tree: string, lists: string, signal: AbortSignal): Promise<boolean> =>
  TELL_OF_MAPPED_WRITES.has((await statfs(tree)).type) && (await canShutLinks(lists, signal))
