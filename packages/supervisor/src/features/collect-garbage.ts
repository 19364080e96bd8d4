import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

type Collect = (options: NodeJS.GCOptions) => unknown
let collect: Collect | undefined

/** Collects garbage before this returns. The first call makes the collector. */
export const collectGarbage = (options: NodeJS.GCOptions): void => {
  collect ??= collector()
  collect({ ...options, execution: "sync" })
}

/**
 * Only a context that is made while the flag is set has `gc`. The flag is set for that moment alone: the compiled code
 * of Node's own modules and of ours fits the default flags, and would be compiled anew with any other.
 */
const collector = (): Collect => {
  setFlagsFromString("--expose-gc")
  const gc = runInNewContext("gc") as Collect
  setFlagsFromString("--no-expose-gc")
  return gc
}
