import { BerthError } from "@berth/protocol/errors"
import { walk } from "./walk.ts"

/** Refuses a socket or directory that another user can have put there. Who may write to it is its owner's affair. */
export const refuseForeignEntry = (path: string): void => {
  try {
    walk(path, { followLast: true }, () => {})
  } catch (thrown) {
    // A missing or unreachable entry is reported where it is used.
    if (thrown instanceof BerthError) throw thrown
  }
}
