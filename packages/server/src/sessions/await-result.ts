import { setTimeout as pause } from "node:timers/promises"
import type { PromptResult, PromptStanding } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId, SessionId } from "@berth/protocol/ids"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { Bells } from "../events/bells.ts"
import { abortable } from "../host/abortable.ts"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import { attachmentPath } from "./deliver.ts"
import { errorOf } from "./failures.ts"
import { firstOf } from "./first-of.ts"
import { FIRST_RETRY_MS, nextRetryMs } from "./retry.ts"
import type { AssignedPrompt, PendingPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"
import { openWatchOver, type Talk, type WatchLimits } from "./watch-over.ts"

export interface AwaitResultParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<Sandboxes, "kept" | "gone" | "giveUp" | "haltOf">
  readonly waits: Waits
  /** Rings when something has changed for a session's prompts. */
  readonly bells: Bells<SessionId>
  readonly log: Logger
  readonly fail: (prompt: PromptId, error: BerthError) => Promise<void>
  readonly keepTrying: <Result>(
    session: SessionId,
    work: () => Promise<Result>,
    signal: AbortSignal,
  ) => Promise<Result | undefined>
  readonly toldWithinMs: number
  readonly limits: WatchLimits
}

const SANDBOX_ENDED: PromptResult = {
  state: "interrupted",
  reason: "its sandbox ended while it had it",
}

/**
 * Takes a lease on the sandbox for the prompt, unless there is one. Fails where the sandbox is not to be used, which
 * may change.
 */
export type Hold = () => Promise<void>

/** Sends a sandbox its prompt, and resolves when the end of the prompt is stored. */
export const openAwaitResult = (parts: AwaitResultParts) => {
  const { stored, sandboxes, bells, log, toldWithinMs } = parts
  const { rows, changes } = stored
  const watchOver = openWatchOver(parts)

  /** Sends the prompt, and again after every break: a repeat changes nothing. */
  const converse = async (
    prompt: AssignedPrompt,
    hold: Hold,
    talk: Talk,
    signal: AbortSignal,
  ): Promise<void> => {
    const { id, session, sandbox } = prompt
    let isStarted = false
    let standing: PromptStanding = { state: "unknown" }
    await held(hold, talk, signal)
    // The wait comes before the check for a stop, so that a stop that is asked for while the sandbox is not reached
    // counts.
    await reached(sandbox, signal)
    for (let waitMs = FIRST_RETRY_MS; !signal.aborted; ) {
      const rung = bells.next(session, signal)
      const now = await currently(prompt)
      if (now === undefined || signal.aborted) return
      try {
        if (now.isStopRequested && !talk.isStopTaken) {
          talk.isSettled = false
          standing = await abortable(sandboxes.kept(sandbox).stopPrompt(id), signal)
          if (standing.state === "unknown") return await changes.end(id, { state: "stopped" })
          talk.isStopTaken = true
        } else if (!isStarted && !now.isStopRequested) {
          const kept = sandboxes.kept(sandbox)
          standing = await abortable(kept.startPrompt(startOf(prompt, kept.agent)), signal)
          isStarted = true
        }
        talk.isSettled = true
        talk.refusal = undefined
      } catch (thrown) {
        if (signal.aborted) return
        const error = errorOf(thrown)
        if (error.code === "bridge.refused" && error.details.code === "internal")
          return await parts.fail(id, error)
        log.debug(
          { op: "prompt.start", prompt: id, sandbox, err: error },
          "sending the prompt to its sandbox failed; retrying",
        )
        talk.refusal = error
        waitMs = nextRetryMs(waitMs)
        await pause(waitMs, undefined, { signal }).catch(() => {})
        continue
      }
      if (standing.state !== "ended") await rung
      else if (await isSilentFor(toldWithinMs, rung, signal))
        return await changes.end(id, standing.result)
    }
  }

  /** Resolves when the prompt has its lease: a sandbox that is halted, or stopping, may be usable later. */
  const held = async (hold: Hold, talk: Talk, signal: AbortSignal): Promise<void> => {
    for (let waitMs = FIRST_RETRY_MS; !signal.aborted; waitMs = nextRetryMs(waitMs)) {
      try {
        await hold()
        talk.refusal = undefined
        return
      } catch (thrown) {
        talk.refusal = errorOf(thrown)
        await pause(waitMs, undefined, { signal }).catch(() => {})
      }
    }
  }

  const endWithSandbox = async (
    { id, session, sandbox }: AssignedPrompt,
    talk: Talk,
    signal: AbortSignal,
  ): Promise<void> => {
    await parts.keepTrying(session, () => sandboxes.gone(sandbox, signal), signal)
    if (!signal.aborted) await changes.end(id, talk.end)
  }

  /**
   * Waits for the connection. Returns without one where there will never be one: the next call to the sandbox fails
   * then.
   */
  const reached = async (sandbox: SandboxId, signal: AbortSignal): Promise<void> => {
    try {
      await abortable(sandboxes.kept(sandbox).connected, signal)
    } catch {}
  }

  /** The prompt as the store has it; undefined: it has ended. */
  const currently = async ({ id, session }: PendingPrompt): Promise<PendingPrompt | undefined> => {
    const next = await rows.next(session)
    return next?.id === id ? next : undefined
  }

  return async (prompt: AssignedPrompt, hold: Hold, signal: AbortSignal): Promise<void> => {
    const talk: Talk = {
      isSettled: false,
      isStopTaken: false,
      refusal: undefined,
      end: SANDBOX_ENDED,
    }
    try {
      await firstOf(signal, [
        (until) => converse(prompt, hold, talk, until),
        (until) => endWithSandbox(prompt, talk, until),
        (until) => watchOver(prompt, talk, until),
      ])
    } finally {
      parts.waits.clear(prompt.id)
    }
  }
}

const startOf = (
  { id, session, text, attachments, deadlineMs, agent }: PendingPrompt,
  there: AgentSpec["kind"],
) => ({
  prompt: id,
  session,
  text,
  ...(attachments.length > 0 && {
    attachments: attachments.map((name) => attachmentPath(id, name)),
  }),
  ...(deadlineMs !== null && { deadlineMs }),
  ...(agent === "shell" && there !== "shell" && { agent }),
})

/** Whether the bell has not rung for so long. False also when the signal fired. */
const isSilentFor = async (
  ms: number,
  rung: Promise<void>,
  signal: AbortSignal,
): Promise<boolean> => {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(!signal.aborted), ms)
  void rung.then(() => resolve(false))
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}
