const FIRST_MS = 50
const LONGEST_MS = 2_000

/** The wait after a failure: `beforeMs` is the wait after the failure before it, if that was one as well. */
export const backOffMs = (beforeMs?: number): number =>
  beforeMs === undefined ? FIRST_MS : Math.min(2 * beforeMs, LONGEST_MS)
