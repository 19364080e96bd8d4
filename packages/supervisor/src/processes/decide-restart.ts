/** Rules for restarting a process that ended, and for giving it up. */
export interface RestartPolicy {
  /** Delay before the first restart. It doubles with each failure in a row. */
  readonly firstDelayMs: number
  readonly maxDelayMs: number
  /** The random part of the delay, so that several processes do not restart in step. */
  readonly jitter: number
  /** After being ready for this long, earlier failures are forgotten. */
  readonly healthyAfterMs: number
  /** The process is given up at this many failures in a row. Infinity: never. */
  readonly maxFailures: number
}

/** Six tries within about five seconds. A process that crashes only now and then is never given up. */
export const RESTART_POLICY: RestartPolicy = {
  firstDelayMs: 250,
  maxDelayMs: 30_000,
  jitter: 0.5,
  healthyAfterMs: 30_000,
  maxFailures: 6,
}

/** How a process ended. */
export interface Ended {
  /** Failures in a row before this one. */
  readonly failures: number
  /** Time for which the process had been ready; 0 if it never was. */
  readonly readyForMs: number
  /** Describes the end for a person: "it ended with status 1". */
  readonly how: string
}

export type RestartDecision =
  | {
      readonly action: "restart"
      readonly afterMs: number
      readonly failures: number
      readonly reason: string
    }
  | { readonly action: "give-up"; readonly failures: number; readonly reason: string }

/** Decides whether to restart. `chance` is a number from 0 to 1, passed in so that the function is pure. */
export const decideRestart = (
  policy: RestartPolicy,
  ended: Ended,
  chance: number,
): RestartDecision => {
  const wasHealthy = ended.readyForMs >= policy.healthyAfterMs
  const failures = wasHealthy ? 1 : ended.failures + 1
  if (failures >= policy.maxFailures) {
    const reason = `${ended.how}; that was failure ${failures} in a row, and ${policy.maxFailures} are the limit`
    return { action: "give-up", failures, reason }
  }
  const fullMs = Math.min(policy.maxDelayMs, policy.firstDelayMs * 2 ** (failures - 1))
  const afterMs = Math.round(fullMs * (1 - policy.jitter * chance))
  const reason = `${ended.how}; failure ${failures} in a row, so it starts again in ${afterMs} ms`
  return { action: "restart", afterMs, failures, reason }
}
