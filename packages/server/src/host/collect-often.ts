import type { Readable } from "node:stream"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/** What may wait to be collected of what passes. */
const GARBAGE_BYTES = 16 * 1024 * 1024

type Collect = (options: { type: "minor"; execution: "sync" }) => void
let collect: Collect | undefined

/**
 * Node takes new memory for every piece that passes, and V8 does not count that when it decides when to collect: a
 * large file would leave more than all else that the server needs. To be called when it is about to be piped.
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

/** Only a context that is made when the flag is set has it. */
const collector = (): Collect => {
  setFlagsFromString("--expose-gc")
  return runInNewContext("gc") as Collect
}
