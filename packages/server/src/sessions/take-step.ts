import type { Logger } from "../logging/logger.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { type AssignParts, openAssign } from "./assign.ts"
import type { Attempt } from "./attempt.ts"
import { type EndOverdueParts, openEndOverdue } from "./end-overdue.ts"
import type { KeepTrying } from "./keep-trying.ts"
import type { Limits } from "./limits.ts"
import type { Step } from "./next-step.ts"
import type { PromptUse } from "./prompt-use.ts"
import type { AssignedPrompt, OpenPrompt } from "./rows.ts"
import { awaitConnection, sendStart, sendStop } from "./send.ts"
import type { Stored } from "./stored.ts"
import { clearWait, tellWait } from "./tell-wait.ts"
import type { Waits } from "./waits.ts"
import type { Wakeup } from "./wakeup.ts"

export interface TakeStepParts extends AssignParts, EndOverdueParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: AssignParts["sandboxes"] & Pick<UsedSandboxes, "gone" | "giveUp">
  readonly waits: Waits
  readonly log: Logger
  readonly keepTrying: KeepTrying
  readonly limits: Limits
}

/** The parts of a run that a step changes. */
export interface Taking {
  readonly attempt: Attempt
  readonly use: PromptUse
  readonly wakeup: Wakeup
  /** Fires when the run ends. */
  readonly signal: AbortSignal
}

/**
 * Takes a step for a prompt. Calls to a sandbox are only begun; resolves when a wait is over, and when what the step
 * stores is on disk.
 */
export type TakeStep = (step: Step, prompt: OpenPrompt, taking: Taking) => void | Promise<void>

export const openTakeStep = (parts: TakeStepParts): TakeStep => {
  const { waits } = parts
  const { changes } = parts.stored
  const takeInSandbox = openTakeInSandbox(parts)
  const assign = openAssign(parts)

  return (step, prompt, taking) => {
    const { attempt, use, wakeup } = taking
    switch (step.kind) {
      case "assign":
        return attempt.call(
          async (signal) => {
            use.begin(await assign(prompt, signal))
            return { hasLease: use.isHeld }
          },
          ({ code, message }) => waits.set(prompt.id, { code, message: () => message }),
        )
      case "tell wait":
        return tellWait(parts, attempt, prompt, step)
      case "clear wait":
        return clearWait(parts, attempt)
      case "wait":
        return wakeup.sleep(step.untilMs - attempt.nowMs)
      case "end":
        return changes.end(prompt.id, step.result)
      case "fail": {
        const { code, message, hint } = step.error
        const told = { type: "error", prompt: prompt.id, code, message, hint } as const
        return changes.end(prompt.id, { state: "failed", reason: message }, [told])
      }
      case "finish":
        return
      default:
        if (prompt.sandbox !== null)
          takeInSandbox(step, { ...prompt, sandbox: prompt.sandbox }, taking)
    }
  }
}

/** A step about the sandbox that the prompt is assigned to. */
type StepInSandbox = Exclude<
  Step,
  { readonly kind: "assign" | "tell wait" | "clear wait" | "wait" | "end" | "fail" | "finish" }
>

/** Begins the call of a step, with the prompt and its sandbox. */
type Begin = (prompt: AssignedPrompt, taking: Taking) => void

const openTakeInSandbox = (parts: TakeStepParts) => {
  const { sandboxes, limits, log } = parts
  const { changes } = parts.stored
  const endOverdue = openEndOverdue(parts)
  const giveUp = openGiveUp(parts)
  const noteFailure = (prompt: AssignedPrompt) => (err: Error) =>
    log.debug({ op: "prompt.start", prompt: prompt.id, sandbox: prompt.sandbox, err }, UNSENT)

  const begin: { readonly [Kind in StepInSandbox["kind"]]: Begin } = {
    "follow sandbox": openFollow(parts),
    "take lease": (prompt, { attempt, use }) =>
      attempt.call(async () => {
        await use.resume(prompt)
        return { hasLease: true }
      }),
    "await connection": ({ sandbox }, { attempt }) =>
      attempt.call(async (signal) => {
        await awaitConnection(sandboxes, sandbox, signal)
        return { isConnectionAwaited: true }
      }),
    start: (prompt, { attempt }) =>
      attempt.call(async (signal) => {
        const reported = await sendStart(sandboxes, prompt, signal)
        return { reported, isStarted: true, isSettled: true, changedMs: attempt.nowMs }
      }, noteFailure(prompt)),
    stop: (prompt, { attempt }) => {
      attempt.set({ isSettled: false })
      attempt.call(async (signal) => {
        const reported = await sendStop(sandboxes, prompt, signal)
        const { nowMs } = attempt
        return { reported, stopTakenMs: nowMs, isSettled: true, changedMs: nowMs }
      }, noteFailure(prompt))
    },
    "end overdue": (prompt, taking) => {
      const { hindrance } = taking.attempt.standing.observed
      const overdue = { withinMs: limits.stop.stopWithinMs, hindrance }
      enforce(parts, taking, prompt, async (signal) => {
        const killed = await endOverdue(prompt, overdue, signal)
        if (killed === undefined) return
        const { attempt } = taking
        const { isToRepeat, words } = killed
        // The prompt has ended with other words.
        const message = `what the stopped prompt ran in ${prompt.sandbox}: ${words}`
        if (attempt.standing.hasKillFailed && !isToRepeat)
          await changes.tell(prompt.session, { type: "warning", prompt: prompt.id, message })
        const endProcessesAtMs = isToRepeat ? attempt.nowMs + limits.stop.stopWithinMs : undefined
        attempt.set({ endProcessesAtMs, hasKillFailed: isToRepeat })
      })
    },
    "give up sandbox": (prompt, taking) => {
      // Others who use the sandbox now may have left when it is tried again.
      taking.attempt.forgetSilence()
      enforce(parts, taking, prompt, () => giveUp(prompt))
    },
  }

  return (step: StepInSandbox, prompt: AssignedPrompt, taking: Taking): void => {
    begin[step.kind](prompt, taking)
  }
}

const UNSENT = "sending the prompt to its sandbox failed; retrying"

/** Follows the sandbox until it is gone, and makes the session keep it. The prompt waits for no sandbox any more. */
const openFollow =
  (parts: TakeStepParts) =>
  (prompt: AssignedPrompt, { attempt, use, signal }: Taking): void => {
    const { sandboxes, keepTrying, waits } = parts
    clearWait(parts, attempt)
    waits.clear(prompt.id)
    use.keep(prompt, signal)
    attempt.set({ isFollowing: true })
    const { session, sandbox } = prompt
    attempt.beside(async (until) => {
      await keepTrying(session, () => sandboxes.gone(sandbox, until), until)
      if (!until.aborted) attempt.set({ isSandboxGone: true })
    })
  }

/** Ends the sandbox of a prompt that was stopped, unless others use it. */
const openGiveUp =
  ({ sandboxes, stored, limits, log }: TakeStepParts) =>
  async ({ id, sandbox }: AssignedPrompt): Promise<void> => {
    const reason = `${sandbox} did not take a stop within ${limits.stop.giveUpAfterMs / 1000} s`
    // Sessions that wait for the same sandbox give it up together: none of them is a use that the others spare it for.
    const overdue = await stored.rows.overdue(sandbox)
    const by = overdue.flatMap((prompt) => [prompt.id, prompt.session])
    const stays = await sandboxes.giveUp(sandbox, { reason, by })
    const fields = { op: "sandbox.giveUp", prompt: id, sandbox, stays }
    if (stays === undefined) log.warn(fields, "a sandbox that does not take a stop is ended")
    else log.debug(fields, "a sandbox that does not take a stop stays")
  }

/** Begins to enforce a stop, beside the calls to the sandbox. */
const enforce = (
  { limits, log }: TakeStepParts,
  { attempt }: Taking,
  { id, sandbox }: AssignedPrompt,
  work: (signal: AbortSignal) => Promise<void>,
): void => {
  attempt.set({ isEnforcing: true })
  attempt.beside(async (signal) => {
    try {
      await work(signal)
    } catch (err) {
      log.debug(
        { op: "prompt.stop", prompt: id, sandbox, err },
        "the stop of a prompt cannot be enforced now; trying again",
      )
    }
    attempt.set({ isEnforcing: false, enforceAtMs: attempt.nowMs + limits.stop.lookEveryMs })
  })
}
