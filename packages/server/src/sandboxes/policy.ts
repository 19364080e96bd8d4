import type { Policy } from "./decide.ts"

const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS

/** Pausing costs nobody anything that is noticed, so it comes soon; a stop ends processes, so it comes late. */
export const DEFAULT_POLICY: Policy = {
  pauseAfterMs: 10 * MINUTE_MS,
  stopAfterMs: DAY_MS,
  quarantineMs: 7 * DAY_MS,
  silentMs: 10 * MINUTE_MS,
}
