import type { StdioOptions } from "node:child_process"
import { closeSync, openSync } from "node:fs"

/**
 * Descriptors that are not for our children, though a library opened them so that every child would have them.
 * Node cannot mark one afterwards. There is one table of descriptors for the whole process, and so one list.
 */
const kept = new Map<number, symbol>()
/** What children get instead; open while there is something to hide. */
let nothing: number | undefined

/** To be undone when the descriptor is closed. Its number may be another's by then, which is not shown by it. */
export const keepFromChildren = (fd: number): (() => void) => {
  nothing ??= openSync("/dev/null", "r+")
  const mark = Symbol()
  kept.set(fd, mark)
  return () => {
    if (kept.get(fd) === mark) kept.delete(fd)
    if (kept.size > 0 || nothing === undefined) return
    closeSync(nothing)
    nothing = undefined
  }
}

/** With /dev/null in the place of each. Those that a child is given anyway are in the place of others already. */
export const withoutKept = (stdio: StdioOptions | undefined): StdioOptions | undefined => {
  if (nothing === undefined || !Array.isArray(stdio)) return stdio
  const all = [...stdio]
  for (const fd of kept.keys()) {
    if (fd < stdio.length) continue
    while (all.length < fd) all.push("ignore")
    all[fd] = nothing
  }
  return all
}
