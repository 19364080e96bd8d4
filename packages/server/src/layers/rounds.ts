import type { Changes } from "./trees/changes.ts"

/** A sandbox that stands still for so much is missed by nobody. */
const FEW_FILES = 1_000
const FEW_BYTES = 16 * 1024 * 1024

/** A sandbox that changes much all the time is not followed for ever. */
const MAX_ROUNDS = 5

export interface RoundFound {
  /** From 1. */
  readonly round: number
  readonly found: Pick<Changes, "files" | "bytes">
  /** The changes that the round before had to copy. */
  readonly previous: Pick<Changes, "files" | "bytes"> | undefined
}

/** Whether what has changed is copied while the sandbox runs, or it is frozen for it: when little is left, or it does not get less. */
export const nextStep = ({ round, found, previous }: RoundFound): "copy" | "freeze" => {
  if (found.files <= FEW_FILES && found.bytes <= FEW_BYTES) return "freeze"
  if (round > MAX_ROUNDS) return "freeze"
  if (previous === undefined) return "copy"
  const isLess = found.files * 2 < previous.files || found.bytes * 2 < previous.bytes
  return isLess ? "copy" : "freeze"
}
