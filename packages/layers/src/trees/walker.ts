import { parentPort } from "node:worker_threads"
import { type ChangesMessage, type ChangesOrder, findChanges, TooDeep } from "./changes.ts"
import { type WalkMessage, type WalkOrder, walk } from "./tally.ts"

/** The program of a thread that walks trees, one after another. */
export type ThreadOrder = WalkOrder | ChangesOrder

/** Reports a failure as a message: a thread that throws may be heard to end before its earlier messages. */
const changesOf = (
  order: ChangesOrder,
  post: (message: ChangesMessage) => void,
): ChangesMessage => {
  try {
    return { changes: findChanges(order, post) }
  } catch (thrown) {
    if (thrown instanceof TooDeep) return { tooDeep: true }
    throw thrown
  }
}

// This file is also loaded outside of a thread, to be compiled ahead of time.
if (parentPort !== null) {
  const port = parentPort
  const post = (message: WalkMessage | ChangesMessage) => port.postMessage(message)
  port.on("message", (order: ThreadOrder) => {
    if ("copy" in order) post(changesOf(order, post))
    else post({ sums: walk(order, post) })
  })
}
