import { parentPort } from "node:worker_threads"
import { type ChangesMessage, type ChangesOrder, findChanges } from "./changes.ts"
import { type WalkMessage, type WalkOrder, walk } from "./tally.ts"

/** The program of a thread that walks trees, one after another. */
export type ThreadOrder = WalkOrder | ChangesOrder

// Also loaded where it is no thread, to be compiled ahead of time.
if (parentPort !== null) {
  const port = parentPort
  const post = (message: WalkMessage | ChangesMessage) => port.postMessage(message)
  port.on("message", (order: ThreadOrder) => {
    if ("copy" in order) post({ changes: findChanges(order, post) })
    else post({ sums: walk(order, post) })
  })
}
