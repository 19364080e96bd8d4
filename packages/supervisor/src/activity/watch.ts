import type { Activity } from "@berth/protocol/activity"
import { MAX_ACTIVE_PROMPTS } from "@berth/protocol/activity-limits"
import type { Uses } from "../features/uses.ts"
import { type Clock, pause } from "../processes/clock.ts"

/** Nobody tells when a process that was left running ends: it is looked for so often while someone waits. */
export const LOOK_EVERY_MS = 2_000

export interface WatchParts {
  readonly clock: Clock
  readonly uses: Uses
  /** How many processes are left running, seen after the call. */
  readonly left: () => Promise<number>
}

/** What lives in the sandbox, now or when it changes. */
export class ActivityWatch {
  readonly #parts: WatchParts
  #left = 0

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  /**
   * What is left is looked for last: a prompt that ends meanwhile is still told of, and what it left is never
   * missed between the two.
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

  /** At once if the version is another, else at the first change or when the time is over. */
  async after(version: number, waitMs: number, signal: AbortSignal): Promise<Activity> {
    const { clock, uses } = this.#parts
    const untilMs = clock.nowMs() + waitMs
    for (;;) {
      signal.throwIfAborted()
      // Taken first, so that a change during the look is not slept through.
      const { nextChange } = uses
      const activity = await this.now()
      const remainingMs = untilMs - clock.nowMs()
      if (activity.version !== version || remainingMs <= 0) return activity
      const woken = AbortSignal.any([nextChange, signal])
      await pause(clock, Math.min(LOOK_EVERY_MS, remainingMs), woken)
    }
  }
}
