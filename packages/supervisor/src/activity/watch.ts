import type { Activity } from "@berth/protocol/activity"
import { MAX_ACTIVE_PROMPTS } from "@berth/protocol/activity-limits"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import { type Clock, pause } from "../processes/clock.ts"

/** Interval at which left processes are counted while a client waits, as there is no event when one ends. */
export const LOOK_EVERY_MS = 2_000

export interface WatchParts {
  readonly clock: Clock
  readonly tracker: ActivityTracker
  /** Counts the left processes, at a moment after the call. */
  readonly left: () => Promise<number>
}

/** Reports the sandbox's activity, now or when it changes. */
export class ActivityWatch {
  readonly #parts: WatchParts
  #left = 0

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  /**
   * Returns the current activity. Processes are counted last, so that a prompt that ends meanwhile is still listed, and
   * what it left is never missed between the two.
   */
  async now(): Promise<Activity> {
    const { tracker, left } = this.#parts
    const { version } = tracker
    const { prompts, commands, terminals } = tracker.now()
    const leftProcesses = await left()
    const isOther = leftProcesses !== this.#left
    this.#left = leftProcesses
    const isLatest = tracker.version === version
    if (isOther) tracker.changed()
    return {
      version: isOther && isLatest ? tracker.version : version,
      prompts: prompts.slice(0, MAX_ACTIVE_PROMPTS),
      commands: [...commands],
      terminals: [...terminals],
      leftProcesses,
    }
  }

  /** Returns the activity at once if its version differs, else at the first change or when the time is over. */
  async after(version: number, waitMs: number, signal: AbortSignal): Promise<Activity> {
    const { clock, tracker } = this.#parts
    const untilMs = clock.nowMs() + waitMs
    for (;;) {
      signal.throwIfAborted()
      // Taken before the count, so that a change during it wakes the loop.
      const { nextChange } = tracker
      const activity = await this.now()
      const remainingMs = untilMs - clock.nowMs()
      if (activity.version !== version || remainingMs <= 0) return activity
      const woken = AbortSignal.any([nextChange, signal])
      await pause(clock, Math.min(LOOK_EVERY_MS, remainingMs), woken)
    }
  }
}
