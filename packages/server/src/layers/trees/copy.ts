import { runProgram } from "../programs.ts"

/**
 * A copy with everything that makes a tree a layer: owners, whiteouts, extended attributes, hard links,
 * holes, sockets and pipes. The attributes are named one by one, since `-a` alone would swallow a failure to
 * keep them.
 */
export const COPY = [
  "cp",
  "-dR",
  "--preserve=mode,ownership,timestamps,links,xattr",
  "--reflink=auto",
  "--sparse=auto",
  "-T",
] as const

/** Copies a tree to a name that does not exist. */
export const copyTree = (from: string, to: string, signal?: AbortSignal): Promise<void> =>
  runProgram([...COPY, "--", from, to], { signal, on: from })
