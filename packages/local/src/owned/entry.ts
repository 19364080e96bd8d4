import { BerthError } from "@berth/protocol/errors"
import { walk } from "./walk.ts"

/** Refuses a socket or directory that another user can have put there. Its owner decides who may write to it. */
export const refuseForeignEntry = (path: string): void => {
  try {
    walk(path, { followLast: true }, () => {})
  } catch (thrown) {
    // A missing or unreachable entry is reported where it is used.
    if (thrown instanceof BerthError) throw thrown
  }
}
