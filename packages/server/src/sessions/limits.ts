export interface Limits {
  /** Give up on getting a sandbox after this long. An engine restart takes less. */
  readonly patienceMs: number
  /** How long the event of a prompt's end may take after the sandbox's answer that the prompt has ended. */
  readonly toldWithinMs: number
  /** A sandbox that has taken a stop is asked again after this long: it may have fallen silent since. */
  readonly askAgainMs: number
  readonly watch: WatchLimits
  readonly stop: StopLimits
}

export interface WatchLimits {
  readonly lookEveryMs: number
  /** Followers of a prompt are told when its sandbox is not reached for this long. */
  readonly tellAfterMs: number
}

export interface StopLimits {
  readonly lookEveryMs: number
  /** The longest that a stop may stay unanswered. A supervisor answers at once, and ends what does not stop within it. */
  readonly stopWithinMs: number
  /**
   * The longest that a sandbox may leave a stop unanswered. Then it is ended, if nobody else uses it: on an overloaded
   * host a supervisor may take several seconds.
   */
  readonly giveUpAfterMs: number
}

export const LIMITS: Limits = {
  patienceMs: 10 * 60_000,
  toldWithinMs: 30_000,
  askAgainMs: 500,
  watch: { lookEveryMs: 1_000, tellAfterMs: 5_000 },
  stop: { lookEveryMs: 250, stopWithinMs: 1_000, giveUpAfterMs: 10_000 },
}

/**
 * Reasons to wait that end by themselves: other users finish, a toolbox is built. They do not count against the
 * patience, and a call that fails with one of them has waited already.
 */
export const PASSING: ReadonlySet<string> = new Set(["workspace.draining", "toolbox.preparing"])
