import { type CopyCall, runCopying } from "./run-copying.ts"

/**
 * Options of `cp` that keep everything that makes a tree a layer: owners, whiteouts, extended attributes, hard links,
 * holes, sockets and pipes. The attributes are named one by one, since `-a` alone would swallow a failure to keep them.
 */
export const KEEPING_ALL = [
  "-dR",
  "--preserve=mode,ownership,timestamps,links,xattr",
  "--reflink=auto",
  "--sparse=auto",
] as const

export const COPY = ["cp", ...KEEPING_ALL, "-T"] as const

/** Copies a tree that nobody changes meanwhile. The target must not exist. */
export const copyTree = (from: string, to: string, call: CopyCall): Promise<void> =>
  runCopying([...COPY, "--verbose", "--", from, to], { to, on: from }, call)
