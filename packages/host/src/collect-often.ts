import type { Readable } from "node:stream"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/** The most garbage of passing bytes between two collections. */
const GARBAGE_BYTES = 16 * 1024 * 1024

type Collect = (options: { type: "minor"; execution: "sync" }) => void
let collect: Collect | undefined

/**
 * Collects garbage while a stream passes. Node takes new memory for every piece that passes, and V8 does not count that
 * when it decides when to collect: a large file would leave more garbage than the server needs for all else. Called
 * when the stream is about to be piped.
 */
export const collectOften = (passing: Readable): void => {
  let bytes = 0
  passing.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes < GARBAGE_BYTES) return
    bytes = 0
    collect ??= collector()
    collect({ type: "minor", execution: "sync" })
  })
}

/**
 * Only a context that is made while the flag is set has `gc`. The flag is set for that moment alone, because the
 * compiled code that node keeps of modules fits the default flags.
 */
const collector = (): Collect => {
  setFlagsFromString("--expose-gc")
  const gc = runInNewContext("gc") as Collect
  setFlagsFromString("--no-expose-gc")
  return gc
}
