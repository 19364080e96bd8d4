import { BerthError } from "@berth/protocol/errors"

/** Bytes of a disk of this machine that data from a sandbox may not take. */
export const KEPT_BYTES = 64 * 1024 * 1024

export const noRoom = (details: Record<string, number>): BerthError =>
  new BerthError("copy.no_room", "the disk of this machine has no room for the copy", { details })
