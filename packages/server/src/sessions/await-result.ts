import { setTimeout as pause } from "node:timers/promises"
import type { PromptResult, PromptStanding } from "@berth/protocol/bridge"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId, SessionId } from "@berth/protocol/ids"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { Bells } from "../events/bells.ts"
import { abortable } from "../host/abortable.ts"
import type { Logger } from "../logging/logger.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import type { FailPoint } from "../sandboxes/state/fail-point.ts"
import { attachmentPath } from "./deliver.ts"
import { type EnforceStopParts, openEnforceStop, type StopLimits } from "./enforce-stop.ts"
import { errorOf } from "./failures.ts"
import { firstOf } from "./first-of.ts"
import type { Talk } from "./hindrance.ts"
import { FIRST_RETRY_MS, nextRetryMs } from "./retry.ts"
import { type AssignedPrompt, isPending, type OpenPrompt, openNow } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"
import { openWatchOver, type WatchLimits } from "./watch-over.ts"

export interface AwaitResultParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<UsedSandboxes, "kept" | "gone" | "giveUp" | "haltOf">
  readonly endProcesses: EnforceStopParts["endProcesses"]
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
  readonly at: FailPoint
  readonly limits: ResultLimits
}

export interface ResultLimits {
  /** How long the event of a prompt's end may take after the sandbox's answer that the prompt has ended. */
  readonly toldWithinMs: number
  /** A sandbox that has taken a stop is asked again after this long: it may have fallen silent since. */
  readonly askAgainMs: number
  readonly watch: WatchLimits
  readonly stop: StopLimits
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

/**
 * Sends a sandbox its prompt, and resolves when the prompt is over: its end is stored, and it does not run any more.
 * Resumes a prompt that an earlier server gave to the sandbox, also one that was stopped without the sandbox's word.
 */
export const openAwaitResult = (parts: AwaitResultParts) => {
  const { stored, sandboxes, bells, log, limits } = parts
  const { rows, changes } = stored
  const watchOver = openWatchOver({ ...parts, limits: limits.watch })
  const enforceStop = openEnforceStop({ ...parts, limits: limits.stop })

  /** Sends the prompt, and again after every break: a repeat changes nothing. */
  const converse = async (
    prompt: AssignedPrompt,
    hold: Hold,
    talk: Talk,
    signal: AbortSignal,
  ): Promise<void> => {
    const { id, session, sandbox } = prompt
    let isStarted = false
    let isStopTaken = false
    let stopTakenMs = 0
    let standing: PromptStanding = { state: "unknown" }
    await held(hold, talk, signal)
    // The wait comes before the check for a stop, so that a stop that is asked for while the sandbox is not reached
    // counts.
    await reached(sandbox, signal)
    for (let waitMs = FIRST_RETRY_MS; !signal.aborted; ) {
      const rung = bells.next(session, signal)
      const now = await openNow(rows, prompt)
      if (now === undefined || signal.aborted) return
      try {
        if (now.isStopRequested && !isStopTaken) {
          talk.isSettled = false
          standing = await abortable(sandboxes.kept(sandbox).stopPrompt(id), signal)
          if (standing.state === "unknown") return await changes.end(id, { state: "stopped" })
          isStopTaken = true
          stopTakenMs = performance.now()
        } else if (!isStarted && !now.isStopRequested) {
          const kept = sandboxes.kept(sandbox)
          standing = await abortable(kept.startPrompt(startOf(prompt, kept.agent)), signal)
          isStarted = true
        }
        talk.isSettled = true
        talk.refusal = undefined
        waitMs = FIRST_RETRY_MS
      } catch (thrown) {
        if (signal.aborted) return
        const error = errorOf(thrown)
        const isRefused = error.code === "bridge.refused" && error.details.code === "internal"
        if (isRefused && isPending(now.state)) return await parts.fail(id, error)
        log.debug(
          { op: "prompt.start", prompt: id, sandbox, err: error },
          "sending the prompt to its sandbox failed; retrying",
        )
        talk.refusal = error
        waitMs = nextRetryMs(waitMs)
        await pause(waitMs, undefined, { signal }).catch(() => {})
        continue
      }
      if (standing.state === "ended") {
        if (await isSilentFor(limits.toldWithinMs, rung, signal))
          return await changes.end(id, standing.result)
      } else if (!isStopTaken) await rung
      else {
        // Since the answer, and not since the last change: a person may ask for the stop again and again.
        const leftMs = stopTakenMs + limits.askAgainMs - performance.now()
        if (leftMs <= 0 || (await isSilentFor(leftMs, rung, signal))) isStopTaken = false
      }
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
    signal: AbortSignal,
  ): Promise<void> => {
    await parts.keepTrying(session, () => sandboxes.gone(sandbox, signal), signal)
    // When the sandbox is gone, all its events are stored.
    if (!signal.aborted) await changes.end(id, SANDBOX_ENDED)
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

  return async (prompt: AssignedPrompt, hold: Hold, signal: AbortSignal): Promise<void> => {
    const talk: Talk = { isSettled: false, refusal: undefined }
    await firstOf(signal, [
      (until) => converse(prompt, hold, talk, until),
      (until) => endWithSandbox(prompt, until),
      (until) => watchOver(prompt, talk, until),
      (until) => enforceStop(prompt, talk, until),
    ])
  }
}

const startOf = (
  { id, session, text, attachments, deadlineMs, agent }: OpenPrompt,
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
