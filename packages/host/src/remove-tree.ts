import { opendir, rmdir, unlink } from "node:fs/promises"
import { join } from "node:path"
import { run } from "./run.ts"

/** Enough for millions of files on a slow disk; a caller with less time gives a signal. */
const REMOVE_DEADLINE_MS = 60 * 60_000

/**
 * The most that is kept of the program's errors: many files may be refused, and their paths be long. The end holds a
 * reason.
 */
const MAX_WORDS = 2_000

/**
 * A prefix that puts a program behind all other work on processor and disk; not idle, which a busy disk never serves.
 */
export const WITH_LOW_PRIORITY = ["ionice", "-t", "-c", "2", "-n", "7", "nice", "-n", "19"]

export interface Removal {
  readonly signal?: AbortSignal | undefined
  /** Whether somebody waits for the removal. Default: true. */
  readonly isUrgent?: boolean
}

/**
 * Deletes a tree, however large and deep it is, but never what happens to be mounted in it. A program does it: it goes
 * down by directories, so that no path is too long for the kernel, and it dies with this process, so that it deletes
 * nothing that the next process makes.
 */
export const removeTree = async (
  directory: string,
  { signal, isUrgent = true }: Removal = {},
): Promise<void> => {
  const command = ["rm", "-rf", "--one-file-system", "--", directory]
  const withPriority = isUrgent ? command : [...WITH_LOW_PRIORITY, ...command]
  const { status, stderr } = await run(["setpriv", "--pdeathsig", "KILL", "--", ...withPriority], {
    signal: signal ?? new AbortController().signal,
    deadlineMs: REMOVE_DEADLINE_MS,
  })
  if (status === 0) return
  const said = stderr.trim().slice(-MAX_WORDS)
  throw Object.assign(new Error(said || `rm: ended by ${status ?? "a signal"}`), {
    path: directory,
  })
}

/**
 * More entries and levels than the server itself puts into such a tree. If a sandbox added more, the program deletes
 * them.
 */
const SMALL_ENTRIES = 128
const SMALL_LEVELS = 8

/** Deletes a tree that is mostly small: a program takes longer to start than the deletion takes. */
export const removeSmallTree = async (directory: string, signal?: AbortSignal): Promise<void> => {
  try {
    await removeWithin(directory, { entries: SMALL_ENTRIES }, SMALL_LEVELS)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return
    await removeTree(directory, { signal })
  }
}

/** Deletes entry by entry, as far as the budget goes. */
const removeWithin = async (
  path: string,
  budget: { entries: number },
  levels: number,
): Promise<void> => {
  if (levels === 0) throw new Error("it is not small")
  try {
    for await (const entry of await opendir(path)) {
      budget.entries -= 1
      if (budget.entries < 0) throw new Error("it is not small")
      const below = join(path, entry.name)
      if (entry.isDirectory()) await removeWithin(below, budget, levels - 1)
      else await unlink(below)
    }
    await rmdir(path)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOTDIR") throw thrown
    await unlink(path)
  }
}
