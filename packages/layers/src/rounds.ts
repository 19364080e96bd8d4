import type { Changes } from "./trees/changes.ts"

/** Copying this much takes so little time that nobody notices a sandbox standing still for it. */
const FEW_FILES = 1_000
const FEW_BYTES = 16 * 1024 * 1024

/** The most rounds of copying, since a sandbox may change much all the time. */
const MAX_ROUNDS = 5

export interface RoundFound {
  /** The number of the round, from 1. */
  readonly round: number
  readonly found: Pick<Changes, "files" | "bytes">
  /** The changes that the previous round had to copy. */
  readonly previous: Pick<Changes, "files" | "bytes"> | undefined
}

/**
 * Decides whether the changes are copied while the sandbox runs, or the sandbox is frozen for it: it is frozen when
 * little is left, or when the amount does not shrink.
 */
export const nextStep = ({ round, found, previous }: RoundFound): "copy" | "freeze" => {
  if (found.files <= FEW_FILES && found.bytes <= FEW_BYTES) return "freeze"
  if (round > MAX_ROUNDS) return "freeze"
  if (previous === undefined) return "copy"
  const isLess = found.files * 2 < previous.files || found.bytes * 2 < previous.bytes
  return isLess ? "copy" : "freeze"
}
