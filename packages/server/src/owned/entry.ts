import { BerthError } from "@berth/protocol/errors"
import { walk } from "./walk.ts"

/** Refuses a socket or directory that another user can have put there. Who may write to it is its owner's affair. */
export const refuseForeignEntry = (path: string): void => {
  try {
    walk(path, { followLast: true }, () => {})
  } catch (thrown) {
    // What is missing or out of reach is told by whoever uses it.
    if (thrown instanceof BerthError) throw thrown
  }
}
