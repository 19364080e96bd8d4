import type { PromptResult } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import { type Limits, PASSING } from "./limits.ts"
import { isPending, type OpenPrompt } from "./rows.ts"
import type { Refusal, Standing } from "./standing.ts"

/** The facts that the next step rests on, read at one moment. */
export interface Facts {
  /** The prompt as the store has it; undefined: it is over. */
  readonly prompt: PromptFacts | undefined
  /** The prompt that followers wait for: the next one of the session, where this one has ended and may still run. */
  readonly heldUp: PromptId | undefined
  readonly standing: Standing
  /** The time of the monotonic clock. */
  readonly nowMs: number
}

export type PromptFacts = Pick<OpenPrompt, "id" | "state" | "sandbox" | "isStopRequested">

export type Step =
  /** The prompt is over: its end is stored, and it does not run any more. */
  | { readonly kind: "finish" }
  /** Gets a sandbox, and notes in the store that the prompt is assigned to it. */
  | { readonly kind: "assign" }
  /** Follows the sandbox until it is gone, and keeps it for the session. */
  | { readonly kind: "follow sandbox" }
  /** Takes the lease on the sandbox that the prompt was assigned to before. */
  | { readonly kind: "take lease" }
  | { readonly kind: "await connection" }
  /** Sends the prompt. A repeat changes nothing. */
  | { readonly kind: "start" }
  | { readonly kind: "stop" }
  /** Stores the end of the prompt. */
  | { readonly kind: "end"; readonly result: PromptResult }
  | { readonly kind: "fail"; readonly error: BerthError }
  /** Ends the prompt whose stop its sandbox has not taken, and the processes of the prompt, or those alone. */
  | { readonly kind: "end overdue" }
  /** Ends the sandbox, unless others use it. */
  | { readonly kind: "give up sandbox" }
  /** Tells followers why a prompt waits, and for how long it has. */
  | {
      readonly kind: "tell wait"
      readonly prompt: PromptId
      readonly wait: { readonly code: string; readonly message: string }
      readonly forMs: number
    }
  | { readonly kind: "clear wait" }
  /** Waits until something changes, or that moment. */
  | { readonly kind: "wait"; readonly untilMs: number }

/**
 * Decides the next step for a prompt. The steps that make calls only begin them, so that a stop is enforced while a call
 * has no answer.
 */
export const nextStep = (facts: Facts, limits: Limits): Step => {
  const { prompt, standing, nowMs } = facts
  if (prompt === undefined) return { kind: "finish" }
  if (prompt.sandbox === null) return nextOfQueued(prompt, facts, limits)
  if (!standing.isFollowing) return { kind: "follow sandbox" }
  if (standing.isSandboxGone) return { kind: "end", result: SANDBOX_ENDED }
  const aside = enforcement(prompt, facts, limits) ?? announcement(facts, limits)
  if (aside !== undefined) return aside
  const next = nextCall(prompt, facts, limits)
  if (next.kind !== "wait") return next
  const { lookEveryMs } = prompt.isStopRequested ? limits.stop : limits.watch
  return { kind: "wait", untilMs: Math.min(next.untilMs, nowMs + lookEveryMs) }
}

const SANDBOX_ENDED: PromptResult = {
  state: "interrupted",
  reason: "its sandbox ended while it had it",
}

const UNTIL_CHANGE: Step = { kind: "wait", untilMs: Number.POSITIVE_INFINITY }

/** The next step for a prompt that is not assigned to a sandbox. */
const nextOfQueued = (
  { id }: PromptFacts,
  { standing, nowMs }: Facts,
  { patienceMs }: Limits,
): Step => {
  const { refusal, told, sinceMs } = standing
  if (standing.isCalling) return UNTIL_CHANGE
  if (refusal === undefined) return { kind: "assign" }
  const { error, atMs } = refusal
  const isPatient = PASSING.has(error.code) || atMs - sinceMs < patienceMs
  if (error.retry === "never" || !isPatient) return { kind: "fail", error }
  if (told?.message !== error.message) {
    const { code, message } = error
    return { kind: "tell wait", prompt: id, wait: { code, message }, forMs: 0 }
  }
  return waitAfter(refusal, nowMs) ?? { kind: "assign" }
}

/** The wait after a failed call; undefined: it is over. */
const waitAfter = ({ atMs, waitMs }: Refusal, nowMs: number): Step | undefined =>
  nowMs < atMs + waitMs ? { kind: "wait", untilMs: atMs + waitMs } : undefined

/**
 * Makes sure that a stop ends the prompt though its sandbox does not answer: the prompt ends first, and later the
 * sandbox, unless it answers or somebody else uses it.
 */
const enforcement = (
  { state }: PromptFacts,
  { standing, nowMs }: Facts,
  { stop }: Limits,
): Step | undefined => {
  const { unheardMs } = standing.observed
  if (unheardMs === undefined || standing.isEnforcing || nowMs < standing.enforceAtMs)
    return undefined
  const { endProcessesAtMs } = standing
  const isToEnd = isPending(state) || (endProcessesAtMs !== undefined && nowMs >= endProcessesAtMs)
  if (isToEnd && unheardMs >= stop.stopWithinMs) return { kind: "end overdue" }
  if (isPending(state) || unheardMs < stop.giveUpAfterMs) return undefined
  return { kind: "give up sandbox" }
}

/** Tells followers that the sandbox may never be reached again, or that it is. */
const announcement = ({ heldUp, standing }: Facts, { watch }: Limits): Step | undefined => {
  const { told } = standing
  const { hindrance, hinderedMs } = standing.observed
  const clear: Step | undefined = told === undefined ? undefined : { kind: "clear wait" }
  if (hindrance === undefined) return clear
  const { code, message, forMs } = hindrance
  if (Math.max(hinderedMs, forMs ?? 0) < watch.tellAfterMs) return undefined
  if (heldUp === undefined) return clear
  if (heldUp === told?.prompt && code === told.code) return undefined
  return { kind: "tell wait", prompt: heldUp, wait: { code, message }, forMs: forMs ?? hinderedMs }
}

/** The next call to the sandbox that has the prompt, or what follows from its last answer. */
const nextCall = (prompt: PromptFacts, { standing, nowMs }: Facts, limits: Limits): Step => {
  const { refusal, reported, changedMs, stopTakenMs } = standing
  if (standing.isCalling) return UNTIL_CHANGE
  if (refusal !== undefined) {
    if (isFailure(refusal.error) && isPending(prompt.state))
      return { kind: "fail", error: refusal.error }
    const wait = waitAfter(refusal, nowMs)
    if (wait !== undefined) return wait
  }
  if (!standing.hasLease) return { kind: "take lease" }
  // The connection comes before the stop, so that a stop that is asked for while the sandbox is not reached counts.
  if (!standing.isConnectionAwaited) return { kind: "await connection" }
  if (prompt.isStopRequested && stopTakenMs === undefined) return { kind: "stop" }
  if (stopTakenMs !== undefined && reported.state === "unknown")
    return { kind: "end", result: { state: "stopped" } }
  if (!standing.isStarted && !prompt.isStopRequested) return { kind: "start" }
  if (reported.state === "ended") {
    const untilMs = changedMs + limits.toldWithinMs
    return nowMs < untilMs ? { kind: "wait", untilMs } : { kind: "end", result: reported.result }
  }
  if (stopTakenMs === undefined) return UNTIL_CHANGE
  // Since the answer, and not since the last change: a person may ask for the stop again and again.
  const untilMs = stopTakenMs + limits.askAgainMs
  return nowMs < untilMs ? { kind: "wait", untilMs } : { kind: "stop" }
}

/** Whether the supervisor said that it cannot run the prompt. */
const isFailure = ({ code, details }: BerthError): boolean =>
  code === "bridge.refused" && details.code === "internal"
