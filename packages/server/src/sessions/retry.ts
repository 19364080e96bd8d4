export const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 2_000

/** The wait before the next attempt, after an attempt that waited for `waitMs`. */
export const nextRetryMs = (waitMs: number): number => Math.min(2 * waitMs, LONGEST_RETRY_MS)
