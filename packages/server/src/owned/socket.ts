import { BerthError } from "@berth/protocol/errors"
import { walk } from "./walk.ts"

/** Refuses a socket that another user can have put there. Who may write to it is its owner's affair. */
export const refuseForeignSocket = (path: string): void => {
  try {
    walk(path, { followLast: true }, () => {})
  } catch (thrown) {
    // A socket that is missing or out of reach is told by whoever connects to it.
    if (thrown instanceof BerthError) throw thrown
  }
}
