/** The time, passed in so that tests have a time of their own. */
export interface Clock {
  /** The wall clock, for people to read: it jumps in both directions. */
  now(): number
  /** The clock for durations. It stands still while the host sleeps. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
}
