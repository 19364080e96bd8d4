export const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 2_000

/** How long the next attempt waits after one that waited so long. */
export const nextRetryMs = (waitMs: number): number => Math.min(2 * waitMs, LONGEST_RETRY_MS)
