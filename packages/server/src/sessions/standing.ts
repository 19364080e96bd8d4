import type { PromptStanding } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import { backOffMs } from "./back-off.ts"
import type { Hindrance } from "./hindrance.ts"
import type { Limits } from "./limits.ts"

/**
 * How far this server is with a prompt. It is in memory alone: the next server begins anew, and every call may be
 * repeated. Times are those of the monotonic clock.
 */
export interface Standing {
  /** When this server began with the prompt. */
  readonly sinceMs: number
  /** A call about the prompt is under way; there is one at a time. */
  readonly isCalling: boolean
  /** How the last call failed; undefined: it did not. */
  readonly refusal: Refusal | undefined
  /** The prompt has its lease on the sandbox. */
  readonly hasLease: boolean
  /** The first connection to the sandbox is there, or there will be none. */
  readonly isConnectionAwaited: boolean
  /** The sandbox has answered to the prompt. */
  readonly isStarted: boolean
  /** When the sandbox last answered to the stop of the prompt. */
  readonly stopTakenMs: number | undefined
  /** The sandbox's last answer about the prompt. */
  readonly reported: PromptStanding
  /** Everything has been sent, and the sandbox has answered. */
  readonly isSettled: boolean
  /** When the prompts of the session last changed, or the sandbox last answered. */
  readonly changedMs: number
  /** The sandbox of the prompt is followed until it is gone. */
  readonly isFollowing: boolean
  /** The sandbox is gone, and all its events are stored. */
  readonly isSandboxGone: boolean
  /** The stop of the prompt is being enforced. */
  readonly isEnforcing: boolean
  /** The stop is not enforced again before this moment. */
  readonly enforceAtMs: number
  /** When the processes of the prompt are to be ended; undefined: that is done, or another attempt ends no more of them. */
  readonly endProcessesAtMs: number | undefined
  /** The last attempt to end the processes of the prompt failed. */
  readonly hasKillFailed: boolean
  readonly observed: Observed
  /** The wait that followers were told about last. */
  readonly told: Told | undefined
}

export interface Refusal {
  readonly error: BerthError
  readonly atMs: number
  /** The next call waits for so long. */
  readonly waitMs: number
}

/** How long the sandbox has done nothing for the prompt, as this server has seen it. */
export interface Observed {
  readonly atMs: number
  readonly hindrance: Hindrance | undefined
  /** How long there has been a hindrance, since it was first seen. */
  readonly hinderedMs: number
  /** How long the stop has been without an answer; undefined: nobody has asked for a stop. */
  readonly unheardMs: number | undefined
}

export interface Told {
  readonly prompt: PromptId
  readonly code: string
  readonly message: string
}

export const newStanding = (
  nowMs: number,
  { hasLease }: { readonly hasLease: boolean },
): Standing => ({
  sinceMs: nowMs,
  isCalling: false,
  refusal: undefined,
  hasLease,
  isConnectionAwaited: false,
  isStarted: false,
  stopTakenMs: undefined,
  reported: { state: "unknown" },
  isSettled: false,
  changedMs: nowMs,
  isFollowing: false,
  isSandboxGone: false,
  isEnforcing: false,
  enforceAtMs: nowMs,
  endProcessesAtMs: nowMs,
  hasKillFailed: false,
  observed: { atMs: nowMs, hindrance: undefined, hinderedMs: 0, unheardMs: undefined },
  told: undefined,
})

/** A call has succeeded; `change` is what it brought. */
export const succeeded = (standing: Standing, change: Partial<Standing>): Standing => ({
  ...standing,
  ...change,
  isCalling: false,
  refusal: undefined,
})

/** A call has failed. Each failure in a row is waited for longer, but for reasons that the call itself has waited for. */
export const refused = (
  standing: Standing,
  error: BerthError,
  { nowMs, hasWaited }: { readonly nowMs: number; readonly hasWaited: boolean },
): Standing => ({
  ...standing,
  isCalling: false,
  refusal: {
    error,
    atMs: nowMs,
    waitMs: hasWaited ? backOffMs() : backOffMs(standing.refusal?.waitMs),
  },
})

/** The sandbox is observed now, with this hindrance. */
export const observe = (
  standing: Standing,
  hindrance: Hindrance | undefined,
  { nowMs, isStopRequested }: { readonly nowMs: number; readonly isStopRequested: boolean },
  { watch, stop }: Pick<Limits, "watch" | "stop">,
): Standing => {
  const { atMs, hinderedMs, unheardMs } = standing.observed
  const isHindered = hindrance !== undefined && standing.observed.hindrance !== undefined
  // Time in which the server itself stood still does not count as the sandbox's silence.
  const sinceMs = (everyMs: number) => Math.min(nowMs - atMs, 2 * everyMs)
  const isHeard = standing.isSettled && hindrance === undefined
  const unheard = isHeard || unheardMs === undefined ? 0 : unheardMs + sinceMs(stop.lookEveryMs)
  return {
    ...standing,
    observed: {
      atMs: nowMs,
      hindrance,
      hinderedMs: isHindered ? hinderedMs + sinceMs(watch.lookEveryMs) : 0,
      unheardMs: isStopRequested ? unheard : undefined,
    },
  }
}
