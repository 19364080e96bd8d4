import { setTimeout as pause } from "node:timers/promises"
import type { SessionId } from "@berth/protocol/ids"
import type { Bells } from "../events/bells.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import { type EndOverdueParts, openEndOverdue } from "./end-overdue.ts"
import { openHindranceOf, type Talk } from "./hindrance.ts"
import { type AssignedPrompt, isPending, openNow } from "./rows.ts"
import type { Stored } from "./stored.ts"

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

export const STOP_LIMITS: StopLimits = {
  lookEveryMs: 250,
  stopWithinMs: 1_000,
  giveUpAfterMs: 10_000,
}

export interface EnforceStopParts extends EndOverdueParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<Sandboxes, "kept" | "giveUp" | "haltOf">
  /** Rings when something has changed for a session's prompts. */
  readonly bells: Bells<SessionId>
  readonly limits: StopLimits
}

/**
 * Makes sure that a stop ends the prompt though its sandbox does not answer: the prompt ends first, and later the
 * sandbox, unless it answers or somebody else uses it. Resolves when the prompt is over.
 */
export const openEnforceStop = (parts: EnforceStopParts) => {
  const { sandboxes, bells, limits, log } = parts
  const { rows, changes } = parts.stored
  const hindranceOf = openHindranceOf(sandboxes)
  const endOverdue = openEndOverdue(parts)

  const stopRequested = async (prompt: AssignedPrompt, signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      const rung = bells.next(prompt.session, signal)
      const now = await openNow(rows, prompt)
      if (now === undefined || now.isStopRequested) return
      await rung
    }
  }

  const giveUp = async ({ id, sandbox }: AssignedPrompt): Promise<void> => {
    const reason = `${sandbox} did not take a stop within ${limits.giveUpAfterMs / 1000} s`
    // Sessions that wait for the same sandbox give it up together: none of them is a use that the others spare it for.
    const overdue = await rows.overdue(sandbox)
    const by = overdue.flatMap((prompt) => [prompt.id, prompt.session])
    const stays = await sandboxes.giveUp(sandbox, { reason, by })
    const fields = { op: "sandbox.giveUp", prompt: id, sandbox, stays }
    if (stays === undefined) log.warn(fields, "a sandbox that does not take a stop is ended")
    else log.debug(fields, "a sandbox that does not take a stop stays")
  }

  return async (prompt: AssignedPrompt, talk: Talk, signal: AbortSignal): Promise<void> => {
    const { id, session, sandbox } = prompt
    await stopRequested(prompt, signal)
    let unheardMs = 0
    let lookedMs = performance.now()
    /** The time of the next attempt to end the prompt's processes; undefined: there is none to make. */
    let nextKillMs: number | undefined = 0
    let hasFailed = false

    /** Returns whether the prompt is over. */
    const look = async (): Promise<boolean> => {
      // Time in which the server itself stood still does not count as the sandbox's silence.
      const sinceMs = Math.min(performance.now() - lookedMs, 2 * limits.lookEveryMs)
      lookedMs = performance.now()
      const hindrance = hindranceOf(sandbox, talk)
      const isHeard = talk.isSettled && hindrance === undefined
      unheardMs = isHeard ? 0 : unheardMs + sinceMs
      const now = await openNow(rows, prompt)
      if (now === undefined) return true
      const withinMs = limits.stopWithinMs
      if (unheardMs < withinMs) return false
      if (isPending(now.state) || (nextKillMs ?? Number.POSITIVE_INFINITY) <= lookedMs) {
        const killed = await endOverdue({ ...now, sandbox }, { withinMs, hindrance }, signal)
        if (killed === undefined) return false
        nextKillMs = killed.isToRepeat ? performance.now() + withinMs : undefined
        // The prompt has ended with other words.
        const message = `what the stopped prompt ran in ${sandbox}: ${killed.words}`
        if (hasFailed && !killed.isToRepeat)
          await changes.tell(session, { type: "warning", prompt: id, message })
        hasFailed = killed.isToRepeat
      }
      if (isPending(now.state) || unheardMs < limits.giveUpAfterMs) return false
      // Others who use the sandbox now may have left when it is tried again.
      unheardMs = 0
      await giveUp(prompt)
      return false
    }

    while (!signal.aborted) {
      await pause(limits.lookEveryMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      try {
        if (await look()) return
      } catch (err) {
        log.debug(
          { op: "prompt.stop", prompt: id, sandbox, err },
          "the stop of a prompt cannot be enforced now; trying again",
        )
      }
    }
  }
}
