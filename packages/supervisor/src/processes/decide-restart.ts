/** When a process that ended is started again, and when no more. */
export interface RestartPolicy {
  /** Before the first restart; it doubles with each failure in a row. */
  readonly firstDelayMs: number
  readonly maxDelayMs: number
  /** The part of the delay that is left to chance, so that several do not restart in step. */
  readonly jitter: number
  /** So long ready, and what came before is forgotten. */
  readonly healthyAfterMs: number
  /** With this many failures in a row it is given up. Infinity: never. */
  readonly maxFailures: number
}

/** Six tries within about five seconds; one that only crashes now and then is never given up. */
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
  /** How long it had been ready; 0 if it never was. */
  readonly readyForMs: number
  /** In the words for a person: "it ended with status 1". */
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

/** `chance` is a number from 0 to 1, so that the decision follows from what is passed in alone. */
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
