import { setTimeout as pause } from "node:timers/promises"
import type { BerthError } from "@berth/protocol/errors"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { PromptWait } from "@berth/protocol/session"
import { Bells } from "../events/bells.ts"
import type { Logger } from "../logging/logger.ts"
import type { Use } from "../sandboxes/requests/use.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { FailPoint } from "../sandboxes/state/fail-point.ts"
import { openAwaitResult, type ResultLimits } from "./await-result.ts"
import { claimOf, openDeliver } from "./deliver.ts"
import { type EnforceStopParts, STOP_LIMITS } from "./enforce-stop.ts"
import type { Presence } from "./presence.ts"
import { FIRST_RETRY_MS, nextRetryMs } from "./retry.ts"
import type { OpenPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import { Waits } from "./waits.ts"
import { WATCH_LIMITS } from "./watch-over.ts"

export interface DriverParts {
  readonly stored: Stored
  readonly sandboxes: Pick<
    UsedSandboxes,
    "useOf" | "useOnly" | "resume" | "endUses" | "kept" | "gone" | "giveUp" | "haltOf" | "putFile"
  >
  readonly presence: Pick<Presence, "of" | "work">
  readonly clock: Pick<Clock, "now">
  readonly log: Logger
  readonly endProcesses: EnforceStopParts["endProcesses"]
  readonly at: FailPoint
  /** Default: LIMITS. */
  readonly limits?: Partial<ResultLimits>
}

/** Drives prompts from their place in the queue to their end, those of one session one after another. */
export interface Driver {
  /** Resumes the prompts that the store has. Called once. */
  start(): Promise<void>
  /** Looks whether the session has something to do. */
  wake(session: SessionId): void
  /** The reason why the prompt waits; null: it does not, or the reason is not known yet. */
  waitOf(prompt: PromptId): PromptWait | null
  /** Stops driving prompts. Running prompts continue in their sandboxes; the next server resumes them. */
  close(): Promise<void>
}

export const LIMITS: ResultLimits = {
  toldWithinMs: 30_000,
  askAgainMs: 500,
  watch: WATCH_LIMITS,
  stop: STOP_LIMITS,
}

export const openDriver = (parts: DriverParts): Driver => {
  const { stored, sandboxes, presence, log } = parts
  const { rows, changes } = stored
  const over = new AbortController()
  const draining = new Map<SessionId, Promise<void>>()
  const ending = new Set<Promise<void>>()
  /** Rings when something has changed for a session's prompts. */
  const bells = new Bells<SessionId>()
  const waits = new Waits(parts.clock)

  const drainQueue = async (session: SessionId): Promise<void> => {
    for (;;) {
      const prompt = await rows.next(session)
      if (prompt === undefined || over.signal.aborted) return
      const leave = new AbortController()
      try {
        await runPrompt(prompt, AbortSignal.any([over.signal, leave.signal]))
      } finally {
        leave.abort()
      }
    }
  }

  const runPrompt = async (prompt: OpenPrompt, signal: AbortSignal): Promise<void> => {
    let use = prompt.sandbox === null ? await deliver(prompt, signal) : undefined
    // A prompt that was assigned to a sandbox before stays with it, whatever has become of it.
    const sandbox = use?.sandbox ?? prompt.sandbox
    if (sandbox === null) return
    const hold = async () => {
      use ??= await sandboxes.resume(sandbox, claimOf(prompt.id))
    }
    const kept = presence.work(prompt.session, signal)
    // A prompt that goes on keeps its sandbox, also while the store fails.
    const result = () => awaitResult({ ...prompt, sandbox }, hold, signal)
    await keepTrying(prompt.session, result, signal)
    // A prompt that goes on without this server keeps its sandbox until the next server resumes it.
    if (use !== undefined && !over.signal.aborted) endUse(use, kept)
  }

  /**
   * Ends a use, after the processes that the prompt left running, and its session, have leases of their own. Nobody
   * waits for that: it takes a while to look for them.
   */
  const endUse = (use: Use, kept: Promise<void>): void => {
    const ended = Promise.all([use.leave(), kept])
      .then(() => use.end())
      .finally(() => ending.delete(ended))
    ending.add(ended)
  }

  const fail = async (prompt: PromptId, { code, message, hint }: BerthError): Promise<void> => {
    const told = { type: "error", prompt, code, message, hint } as const
    await changes.end(prompt, { state: "failed", reason: message }, [told])
  }

  const wake = (session: SessionId): void => {
    bells.ring(session)
    if (draining.has(session) || over.signal.aborted) return
    draining.set(session, drainAndLook(session))
  }

  const drainAndLook = async (session: SessionId): Promise<void> => {
    await keepTrying(session, () => drainQueue(session), over.signal)
    draining.delete(session)
    // Prompts may have come between the last look and now.
    const next = await keepTrying(session, () => rows.next(session), over.signal)
    if (next !== undefined) wake(session)
  }

  /**
   * Repeats the work until it succeeds: an accepted prompt waits for as long as it takes. Returns undefined if the
   * signal fires before.
   */
  const keepTrying = async <Result>(
    session: SessionId,
    work: () => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result | undefined> => {
    for (let waitMs = FIRST_RETRY_MS; ; waitMs = nextRetryMs(waitMs)) {
      try {
        return await work()
      } catch (err) {
        if (signal.aborted) return undefined
        log.error(
          { op: "session.drain", session, err },
          "driving the prompts of a session failed; retrying",
        )
        await pause(waitMs, undefined, { signal }).catch(() => {})
      }
    }
  }

  const deliver = openDeliver({ stored, sandboxes, presence, waits, bells, fail })
  const awaitResult = openAwaitResult({
    stored,
    sandboxes,
    waits,
    bells,
    log,
    fail,
    keepTrying,
    endProcesses: parts.endProcesses,
    at: parts.at,
    limits: { ...LIMITS, ...parts.limits },
  })

  return {
    start: async () => {
      const sessions = await rows.busy()
      const running = new Set<string | null>()
      for (const session of sessions) {
        const next = await rows.next(session)
        if (next?.sandbox != null) running.add(next.id)
      }
      await sandboxes.endUses(["prompt"], (subject) => !running.has(subject))
      for (const session of sessions) wake(session)
    },
    wake,
    waitOf: (prompt) => waits.of(prompt),
    close: async () => {
      over.abort()
      await Promise.allSettled([...draining.values(), ...ending])
    },
  }
}
