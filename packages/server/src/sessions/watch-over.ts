import { setTimeout as pause } from "node:timers/promises"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { AssignedPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"

/** The conversation with a sandbox about one of its prompts, as far as it has come. */
export interface Talk {
  /** All that there is to say has been said, and the sandbox has answered. */
  isSettled: boolean
  /** The sandbox has answered that it stops the prompt. */
  isStopTaken: boolean
  /** The prompt has ended in the store, and the sandbox has not taken its stop yet. */
  isOverdue: boolean
  /** Why the sandbox could not be told, at the last attempt; undefined: it was. */
  refusal: BerthError | undefined
}

export interface WatchLimits {
  readonly lookEveryMs: number
  /** A sandbox that is not reached for so long is told to whoever follows its prompt. */
  readonly tellAfterMs: number
  /** How long a stop may stay unheard until the prompt ends in the store. A supervisor answers at once. */
  readonly stopWithinMs: number
  /** How long a stop may stay unheard until the sandbox is ended. A supervisor on an overloaded host may take several seconds. */
  readonly giveUpAfterMs: number
  /** A sandbox that is ended is gone within this time, unless its engine is not reached. */
  readonly goneWithinMs: number
}

export const WATCH_LIMITS: WatchLimits = {
  lookEveryMs: 250,
  tellAfterMs: 5_000,
  stopWithinMs: 1_000,
  giveUpAfterMs: 10_000,
  goneWithinMs: 30_000,
}

export interface WatchOverParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<Sandboxes, "kept" | "giveUp" | "haltOf">
  readonly waits: Waits
  readonly log: Logger
  readonly limits: WatchLimits
}

/**
 * Watches over a prompt whose sandbox may never be reached again: says so, and sees to it that a stop ends the prompt
 * all the same. Ends a sandbox for a person's stop alone, and never one that somebody else uses.
 */
export const openWatchOver = ({ stored, sandboxes, waits, limits, log }: WatchOverParts) => {
  const { rows, changes } = stored

  const silenceOf = (sandbox: SandboxId): Silence | undefined => {
    try {
      return sandboxes.kept(sandbox).silence
    } catch {
      // Nothing connects to it: it has ended, or is about to be found again.
      return undefined
    }
  }

  /** Why the sandbox does nothing for the prompt. */
  const hindranceOf = (sandbox: SandboxId, talk: Talk): Hindrance | undefined => {
    const halt = sandboxes.haltOf(sandbox)
    if (halt !== undefined)
      return { code: "sandbox.halted", message: `${sandbox} is halted: ${halt}` }
    const silence = silenceOf(sandbox)
    if (silence === undefined) return talk.refusal
    const { reason, forMs } = silence
    return {
      code: reason?.code ?? "bridge.unreachable",
      message: `${sandbox} is not reached${reason ? `: ${reason.message}` : ""}`,
      forMs,
    }
  }

  const tell = async (
    { id, session }: AssignedPrompt,
    { code, message, forMs }: Hindrance,
    hinderedMs: number,
  ) => {
    waits.set(id, { code, message: () => message }, forMs ?? hinderedMs)
    await changes.tell(session, { type: "prompt.waiting", prompt: id, code, message })
  }

  /** Ends a prompt in the store whose stop is not taken. The sandbox is told to stop it for as long as it lives. */
  const endOverdue = async (
    { id, sandbox }: AssignedPrompt,
    talk: Talk,
    hindrance: Hindrance | undefined,
  ): Promise<void> => {
    const why = hindrance === undefined ? "" : ` (${hindrance.message})`
    const rest = "whatever the prompt runs there is stopped when the sandbox answers, or with it"
    // Before the end is stored, which wakes the conversation.
    talk.isOverdue = true
    try {
      await changes.end(id, {
        state: "stopped",
        reason: `${sandbox} did not take the stop within ${limits.stopWithinMs / 1000} s${why}: ${rest}`,
      })
    } catch (thrown) {
      talk.isOverdue = false
      throw thrown
    }
  }

  /** The prompts behind an overdue one wait for its sandbox to answer, or to be gone. */
  const holdNext = async ({ id, session, sandbox }: AssignedPrompt, held: Held): Promise<void> => {
    const next = (await rows.next(session))?.id
    if (next === undefined || next === id || next === held.prompt) return
    held.release()
    const code = "bridge.unreachable"
    const message = `${sandbox} has not taken the stop of the prompt before`
    held.prompt = next
    waits.set(next, { code, message: () => message })
    await changes.tell(session, { type: "prompt.waiting", prompt: next, code, message })
  }

  /** Ends a sandbox that does not take a stop, where it may be ended, and waits until it is gone. */
  const giveUp = async (
    { id, session, sandbox }: AssignedPrompt,
    signal: AbortSignal,
  ): Promise<void> => {
    const why = `${sandbox} did not take a stop within ${limits.giveUpAfterMs / 1000} s`
    const stays = await sandboxes.giveUp(sandbox, { reason: why, by: [id, session] })
    const tell = (rest: string) =>
      changes.tell(session, { type: "warning", prompt: id, message: `${why}, and ${rest}` })
    if (stays !== undefined) return await tell(stays)
    await tell("is ended")
    await pause(limits.goneWithinMs, undefined, { signal }).catch(() => {})
    if (!signal.aborted) await tell("its engine has not ended it yet")
  }

  return async (prompt: AssignedPrompt, talk: Talk, signal: AbortSignal): Promise<void> => {
    const { id, session, sandbox } = prompt
    const held = new Held(waits)
    let told: string | undefined
    let hinderedMs = 0
    let unheardMs = 0
    let lookedMs = performance.now()

    /** Whether there is nothing more to watch. */
    const look = async (): Promise<boolean> => {
      // A server that stood still has heard nobody meanwhile: that time is nobody's silence.
      const sinceMs = Math.min(performance.now() - lookedMs, 2 * limits.lookEveryMs)
      lookedMs = performance.now()
      const hindrance = hindranceOf(sandbox, talk)
      hinderedMs = hindrance === undefined ? 0 : hinderedMs + sinceMs
      if (hindrance === undefined && told !== undefined) {
        waits.clear(id)
        told = undefined
      }
      if (hindrance === undefined && talk.isSettled) {
        unheardMs = 0
        return talk.isOverdue
      }
      if (talk.isOverdue) {
        unheardMs += sinceMs
        if (unheardMs < limits.giveUpAfterMs) await holdNext(prompt, held)
        else await giveUp(prompt, signal)
        return unheardMs >= limits.giveUpAfterMs
      }
      const isLong = Math.max(hinderedMs, hindrance?.forMs ?? 0) >= limits.tellAfterMs
      if (hindrance !== undefined && hindrance.code !== told && isLong) {
        await tell(prompt, hindrance, hinderedMs)
        told = hindrance.code
      }
      const next = await rows.next(session)
      if (next?.id !== id) return true
      if (!next.isStopRequested) return false
      unheardMs += sinceMs
      if (unheardMs >= limits.stopWithinMs) await endOverdue(prompt, talk, hindrance)
      return false
    }

    try {
      for (;;) {
        await pause(limits.lookEveryMs, undefined, { signal, ref: false }).catch(() => {})
        if (signal.aborted) return
        try {
          if (await look()) return
        } catch (err) {
          // The store cannot be used now: the prompt goes on, and is looked at again.
          log.debug({ op: "prompt.watch", prompt: id, sandbox, err }, "is looked at again")
        }
      }
    } finally {
      held.release()
    }
  }
}

/** The prompt that waits behind an overdue one. */
class Held {
  readonly #waits: Waits
  prompt: PromptId | undefined

  constructor(waits: Waits) {
    this.#waits = waits
  }

  release(): void {
    if (this.prompt !== undefined) this.#waits.clear(this.prompt)
  }
}

/** Why a sandbox does nothing for its prompt; for how long, where that is known. */
export interface Hindrance {
  readonly code: string
  readonly message: string
  readonly forMs?: number
}

/** A sandbox that is not connected: for how long, and why as far as that is known. */
export interface Silence {
  readonly forMs: number
  readonly reason: BerthError | undefined
}
