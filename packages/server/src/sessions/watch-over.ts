import { setTimeout as pause } from "node:timers/promises"
import type { PromptResult } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { AssignedPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"

/** The state of the conversation with a sandbox about one of its prompts. */
export interface Talk {
  /** Everything has been sent, and the sandbox has answered. */
  isSettled: boolean
  /** The sandbox has answered that it stops the prompt. */
  isStopTaken: boolean
  /** Why the last attempt to reach the sandbox failed; undefined: it succeeded. */
  refusal: BerthError | undefined
  /** The result of the prompt if its sandbox ends. */
  end: PromptResult
}

export interface WatchLimits {
  readonly lookEveryMs: number
  /** Followers of a prompt are told when its sandbox is not reached for this long. */
  readonly tellAfterMs: number
  /**
   * The longest that a stop may stay unanswered. A supervisor answers at once, and ends an agent that does not stop
   * within a second; on an overloaded host it may take several.
   */
  readonly stopWithinMs: number
  /** A sandbox that is ended is gone within this time, unless its engine is not reached. */
  readonly goneWithinMs: number
}

export const WATCH_LIMITS: WatchLimits = {
  lookEveryMs: 1_000,
  tellAfterMs: 5_000,
  stopWithinMs: 10_000,
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
 * Watches over a prompt whose sandbox may never be reached again: tells its followers, and makes sure that a stop ends
 * the prompt all the same. Ends a sandbox only for a person's stop, and never one that somebody else uses.
 */
export const openWatchOver = ({ stored, sandboxes, waits, limits, log }: WatchOverParts) => {
  const { rows, changes } = stored

  const silenceOf = (sandbox: SandboxId): Silence | undefined => {
    try {
      return sandboxes.kept(sandbox).silence
    } catch {
      // There is no connection: the sandbox has ended, or is about to be found again.
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

  /** Ends a prompt whose sandbox does not take the stop, and the sandbox with it where that is allowed. */
  const giveUp = async (
    { id, session, sandbox }: AssignedPrompt,
    talk: Talk,
    signal: AbortSignal,
  ): Promise<void> => {
    const why = `${sandbox} did not take the stop within ${limits.stopWithinMs / 1000} s`
    const stays = await sandboxes.giveUp(sandbox, { reason: why, by: [id, session] })
    if (stays === undefined) {
      // When the sandbox is gone, all its events are stored, and the prompt ends by that.
      talk.end = { state: "stopped", reason: `${why}, and was ended` }
      await pause(limits.goneWithinMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
    }
    const rest =
      stays === undefined
        ? "its engine has not ended it yet"
        : `${stays}: whatever the prompt runs there is stopped when it answers again`
    await changes.end(id, { state: "stopped", reason: `${why}, and ${rest}` })
  }

  return async (prompt: AssignedPrompt, talk: Talk, signal: AbortSignal): Promise<void> => {
    const { id, session, sandbox } = prompt
    let told: string | undefined
    let hinderedMs = 0
    let unheardMs = 0
    let lookedMs = performance.now()

    /** Returns whether the prompt has ended. */
    const look = async (): Promise<boolean> => {
      // Time in which the server itself stood still does not count as the sandbox's silence.
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
        return false
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
      if (unheardMs < limits.stopWithinMs) return false
      await giveUp(prompt, talk, signal)
      return true
    }

    for (;;) {
      await pause(limits.lookEveryMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      try {
        if (await look()) return
      } catch (err) {
        // The store cannot be used now: the prompt goes on, and is looked at again.
        log.debug(
          { op: "prompt.watch", prompt: id, sandbox, err },
          "the store cannot be used; looking at the prompt again",
        )
      }
    }
  }
}

/** Why a sandbox does nothing for its prompt; for how long, where that is known. */
export interface Hindrance {
  readonly code: string
  readonly message: string
  readonly forMs?: number
}

/** The state of a sandbox that is not connected: for how long, and why as far as that is known. */
export interface Silence {
  readonly forMs: number
  readonly reason: BerthError | undefined
}
