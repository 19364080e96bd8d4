import type { Clock } from "../clock.ts"
import { pause } from "../clock.ts"
import type { Readiness } from "./readiness.ts"

/** Time to wait. A process that fails at its start, such as by a typo in its command, has ended by then. */
export const STAYS_UP_MS = 300

/** Readiness of a process without a check: it is ready when it has stayed up for a moment. */
export const readyOnceUp = (clock: Clock): Readiness => ({
  description: "it did not stay up",
  wait: (_, signal) => pause(clock, STAYS_UP_MS, signal),
})
