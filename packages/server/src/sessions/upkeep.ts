import type { Logger } from "../logging/logger.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Store } from "../store/open.ts"
import type { Stored } from "./stored.ts"
import { tidy } from "./tidy.ts"

export interface UpkeepParts {
  readonly stored: Pick<Stored, "log" | "rest">
  readonly store: Pick<Store, "db" | "compact">
  readonly clock: Pick<Clock, "now">
  readonly log: Logger
  /** How long events are kept; null: for ever. */
  readonly keepEventsMs: number | null
}

const FORGET_EVERY_MS = 3600 * 1000

/** Sessions that hold too much are looked for more often: a full session leaves output out of its log. */
const TIDY_EVERY_MS = 60_000

/** Removes old events, and those beyond the bounds, from now on until it is closed. */
export const startUpkeep = (parts: UpkeepParts): { close(): void } => {
  const { stored, store, clock, log, keepEventsMs } = parts
  const forget = async (): Promise<void> => {
    if (keepEventsMs === null) return
    try {
      await stored.log.removeBefore(clock.now() - keepEventsMs)
    } catch (err) {
      log.warn({ op: "events.forget", err }, "removing old events failed; retrying in an hour")
    }
  }
  const tidying = { events: stored.log, store, rest: stored.rest, log }
  void forget()
  const timers = [
    setInterval(() => void forget(), FORGET_EVERY_MS).unref(),
    setInterval(() => void tidy(tidying), TIDY_EVERY_MS).unref(),
  ]
  return {
    close: () => {
      for (const timer of timers) clearInterval(timer)
    },
  }
}
