import { setTimeout as pause } from "node:timers/promises"
import type { PromptResult } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
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
  /** How the prompt ends with its sandbox. */
  end: PromptResult
}

export interface WatchLimits {
  readonly lookEveryMs: number
  /** A sandbox that is not reached for so long is told to whoever follows its prompt. */
  readonly tellAfterMs: number
  /**
   * How long a stop may stay unheard. A supervisor answers at once, and ends an agent that does not stop within a second; on a
   * host that is overloaded it may take several.
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
  readonly sandboxes: Pick<Sandboxes, "kept" | "giveUp">
  readonly waits: Waits
  readonly limits: WatchLimits
}

/**
 * Watches over a prompt whose sandbox may never be reached again: says so, and sees to it that a stop ends the prompt
 * all the same. Ends a sandbox for a person's stop alone, and never one that somebody else uses.
 */
export const openWatchOver = ({ stored, sandboxes, waits, limits }: WatchOverParts) => {
  const { rows, changes } = stored

  const silenceOf = (sandbox: SandboxId): Silence | undefined => {
    try {
      return sandboxes.kept(sandbox).silence
    } catch {
      // Nothing connects to it: it has ended, or is about to be found again.
      return undefined
    }
  }

  const tell = async ({ id, session, sandbox }: AssignedPrompt, silence: Silence) => {
    const code = silence.reason?.code ?? "bridge.unreachable"
    const message = `${sandbox} is not reached${silence.reason ? `: ${silence.reason.message}` : ""}`
    waits.set(id, { code, message: () => message }, silence.forMs)
    await changes.tell(session, { type: "prompt.waiting", prompt: id, code, message })
  }

  /** Ends a prompt whose stop is not taken, with its sandbox where nobody else uses that. */
  const giveUp = async (
    { id, session, sandbox }: AssignedPrompt,
    talk: Talk,
    signal: AbortSignal,
  ): Promise<void> => {
    const why = `${sandbox} did not take the stop within ${limits.stopWithinMs / 1000} s`
    const isEnding = await sandboxes.giveUp(sandbox, { reason: why, by: [id, session] })
    if (isEnding) {
      // All that the sandbox has said is stored when it is gone, and the prompt ends by that.
      talk.end = { state: "stopped", reason: `${why}, and was ended` }
      await pause(limits.goneWithinMs, undefined, { signal }).catch(() => {})
      if (signal.aborted) return
    }
    const rest = isEnding
      ? "its engine has not ended it yet"
      : "others use it: whatever the prompt runs there is stopped when it answers again"
    await changes.end(id, { state: "stopped", reason: `${why}, and ${rest}` })
  }

  return async (prompt: AssignedPrompt, talk: Talk, signal: AbortSignal): Promise<void> => {
    const { id, session, sandbox } = prompt
    let isTold = false
    let stopAskedMs: number | undefined
    for (;;) {
      await pause(limits.lookEveryMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      const silence = silenceOf(sandbox)
      if (silence === undefined && isTold) waits.clear(id)
      isTold &&= silence !== undefined
      if (silence === undefined && talk.isSettled) continue
      if (!isTold && silence !== undefined && silence.forMs >= limits.tellAfterMs) {
        isTold = true
        await tell(prompt, silence)
      }
      const silentMs = silence?.forMs ?? 0
      const next = await rows.next(session)
      if (next?.id !== id) return
      if (!next.isStopRequested) continue
      stopAskedMs ??= performance.now()
      const unheardMs = talk.isStopTaken ? silentMs : performance.now() - stopAskedMs
      if (unheardMs >= limits.stopWithinMs) return await giveUp(prompt, talk, signal)
    }
  }
}

/** A sandbox that is not connected: for how long, and why as far as that is known. */
export interface Silence {
  readonly forMs: number
  readonly reason: BerthError | undefined
}
