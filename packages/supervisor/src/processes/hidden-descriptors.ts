import type { StdioOptions } from "node:child_process"
import { closeSync, openSync } from "node:fs"

/**
 * Descriptors that children must not inherit, though a library opened them without close-on-exec. Node cannot set that
 * flag afterwards. The process has one table of descriptors, so this list is global.
 */
const hidden = new Map<number, symbol>()
/** A descriptor of /dev/null that children get instead, open while the list has entries. */
let nothing: number | undefined

/**
 * Hides a descriptor from children. The returned function undoes it when the descriptor is closed; if its number was
 * given to another one by then, that one stays hidden.
 */
export const hideFromChildren = (fd: number): (() => void) => {
  nothing ??= openSync("/dev/null", "r+")
  const mark = Symbol()
  hidden.set(fd, mark)
  return () => {
    if (hidden.get(fd) === mark) hidden.delete(fd)
    if (hidden.size > 0 || nothing === undefined) return
    closeSync(nothing)
    nothing = undefined
  }
}

/**
 * Adds /dev/null to `stdio` at the number of each hidden descriptor. Numbers that `stdio` sets already need nothing.
 */
export const withoutHidden = (stdio: StdioOptions | undefined): StdioOptions | undefined => {
  if (nothing === undefined || !Array.isArray(stdio)) return stdio
  const all = [...stdio]
  for (const fd of hidden.keys()) {
    if (fd < stdio.length) continue
    while (all.length < fd) all.push("ignore")
    all[fd] = nothing
  }
  return all
}
