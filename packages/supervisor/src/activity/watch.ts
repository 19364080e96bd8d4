import type { Activity } from "@berth/protocol/activity"
import { MAX_ACTIVE_PROMPTS } from "@berth/protocol/activity-limits"
import type { Uses } from "../features/uses.ts"
import { type Clock, pause } from "../processes/clock.ts"

/** Interval at which left processes are counted while a client waits, as there is no event when one ends. */
export const LOOK_EVERY_MS = 2_000

export interface WatchParts {
  readonly clock: Clock
  readonly uses: Uses
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
    const { uses, left } = this.#parts
    const { version } = uses
    const { prompts, commands, terminals } = uses.now()
    const leftProcesses = await left()
    const isOther = leftProcesses !== this.#left
    this.#left = leftProcesses
    const isLatest = uses.version === version
    if (isOther) uses.changed()
    return {
      version: isOther && isLatest ? uses.version : version,
      prompts: prompts.slice(0, MAX_ACTIVE_PROMPTS),
      commands: [...commands],
      terminals: [...terminals],
      leftProcesses,
    }
  }

  /** Returns the activity at once if its version differs, else at the first change or when the time is over. */
  async after(version: number, waitMs: number, signal: AbortSignal): Promise<Activity> {
    const { clock, uses } = this.#parts
    const untilMs = clock.nowMs() + waitMs
    for (;;) {
      signal.throwIfAborted()
      // Taken before the count, so that a change during it wakes the loop.
      const { nextChange } = uses
      const activity = await this.now()
      const remainingMs = untilMs - clock.nowMs()
      if (activity.version !== version || remainingMs <= 0) return activity
      const woken = AbortSignal.any([nextChange, signal])
      await pause(clock, Math.min(LOOK_EVERY_MS, remainingMs), woken)
    }
  }
}
