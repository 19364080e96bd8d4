import { runProgram } from "../io/programs.ts"

/** Writes everything of the tree's file system to the disk, so that a record that is written next is true of it. */
export const flushTree = (tree: string, signal?: AbortSignal): Promise<void> =>
  runProgram(["sync", "-f", "--", tree], { signal, on: tree })
