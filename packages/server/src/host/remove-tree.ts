import { rm } from "node:fs/promises"
import { run } from "./run.ts"

/** For millions of files on a slow disk; whoever has less time gives a signal. */
const REMOVE_DEADLINE_MS = 60 * 60_000

/** Many files may be refused, and their paths be long: the end holds a reason. */
const MAX_WORDS = 2_000

/**
 * Deletes a tree, however large and deep it is; never what happens to be mounted in it. A program does it: it goes
 * down by directories, so that no path is too long for the kernel, and it dies with this process, so that
 * nothing is deleted any more that the next process makes.
 */
export const removeTree = async (directory: string, signal?: AbortSignal): Promise<void> => {
  const command = ["rm", "-rf", "--one-file-system", "--", directory]
  const { status, stderr } = await run(["setpriv", "--pdeathsig", "KILL", "--", ...command], {
    signal: signal ?? new AbortController().signal,
    deadlineMs: REMOVE_DEADLINE_MS,
  })
  if (status === 0) return
  const said = stderr.trim().slice(-MAX_WORDS)
  throw Object.assign(new Error(said || `rm: ended by ${status ?? "a signal"}`), {
    path: directory,
  })
}

/** The same of a tree that is mostly small: a program takes longer to start than that takes to delete. */
export const removeSmallTree = async (directory: string, signal?: AbortSignal): Promise<void> => {
  try {
    await rm(directory, { recursive: true, force: true })
  } catch {
    await removeTree(directory, signal)
  }
}
