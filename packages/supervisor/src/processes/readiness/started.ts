import type { Clock } from "../clock.ts"
import { pause } from "../clock.ts"
import type { Readiness } from "./readiness.ts"

/** One that fails at its start, as by a wrong word in its command, has done so by then. */
export const STAYS_UP_MS = 300

/** For a process with nothing to wait for: it is ready when it has stayed up for a moment. */
export const readyOnceUp = (clock: Clock): Readiness => ({
  description: "it did not stay up",
  wait: (_, signal) => pause(clock, STAYS_UP_MS, signal),
})
