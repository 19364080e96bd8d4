import { BerthError } from "@berth/protocol/errors"

/** The bytes that data from a sandbox leaves free on a disk of this machine. */
export const LEFT_FREE_BYTES = 64 * 1024 * 1024

export const noRoom = (details: Record<string, number>): BerthError =>
  new BerthError("copy.no_room", "the disk of this machine has no room for the copy", { details })
