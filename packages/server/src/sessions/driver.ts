import { setTimeout as pause } from "node:timers/promises"
import type { PromptStanding } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId, SandboxId, SessionId } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import type { AgentSpec } from "@berth/protocol/workspace"
import { Bells } from "../events/bells.ts"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { Claim, Use } from "../sandboxes/use.ts"
import { agentChanged } from "./agent-changed.ts"
import type { Presence } from "./presence.ts"
import type { PendingPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"

export interface DriverParts {
  readonly stored: Stored
  readonly sandboxes: Pick<
    Sandboxes,
    "useOf" | "useOnly" | "resume" | "endUses" | "kept" | "gone" | "putFile"
  >
  readonly presence: Pick<Presence, "of" | "work">
  readonly log: Logger
  /** Default: TOLD_WITHIN_MS. */
  readonly toldWithinMs?: number
}

/** Leads prompts from their place in the queue to their end: those of one session one after another. */
export interface Driver {
  /** Takes up what was there before. Once. */
  start(): Promise<void>
  /** There may be something to do for this session. */
  wake(session: SessionId): void
  /** Lets go of all that is led; what runs goes on, and is taken up by the next server. */
  close(): Promise<void>
}

const FIRST_RETRY_MS = 50
const LONGEST_RETRY_MS = 2_000

/** So long a sandbox that cannot be had for now is tried again: an engine restarts in less. */
const PATIENCE_MS = 10 * 60_000

/** Reasons to wait that end by themselves and are told each time: who uses the sandbox, how far an agent is. */
const TOLD_ANEW: ReadonlySet<string> = new Set(["workspace.draining", "toolbox.preparing"])

/** The event of an end is on its way when the sandbox answers that it has ended; after so long, it is not. */
const TOLD_WITHIN_MS = 30_000

const claimOf = (prompt: PromptId): Claim => ({
  kind: "prompt",
  source: "prompt",
  subject: prompt,
  holder: `prompt ${prompt}`,
})

export const openDriver = ({
  stored,
  sandboxes,
  presence,
  log,
  toldWithinMs = TOLD_WITHIN_MS,
}: DriverParts): Driver => {
  const { rows, changes } = stored
  const over = new AbortController()
  const led = new Map<SessionId, Promise<void>>()
  const ending = new Set<Promise<void>>()
  /** Rings when something has changed for a session's prompts. */
  const bells = new Bells<SessionId>()

  const lead = async (session: SessionId): Promise<void> => {
    for (;;) {
      const prompt = await rows.next(session)
      if (prompt === undefined || over.signal.aborted) return
      const leave = new AbortController()
      try {
        await leadOne(prompt, AbortSignal.any([over.signal, leave.signal]))
      } finally {
        leave.abort()
      }
    }
  }

  const leadOne = async (prompt: PendingPrompt, signal: AbortSignal): Promise<void> => {
    const use = prompt.sandbox === null ? await give(prompt, signal) : await goOn(prompt)
    if (use === undefined) return
    const kept = presence.work(prompt.session, signal)
    try {
      await attend({ ...prompt, sandbox: use.sandbox }, signal)
    } finally {
      // One that is only let go of keeps its sandbox until the next server takes it up.
      if (!over.signal.aborted) endUse(use, kept)
    }
  }

  /**
   * What the prompt left running keeps the sandbox on, and so does its session. It takes a while to look for that:
   * nobody waits for it.
   */
  const endUse = (use: Use, kept: Promise<void>): void => {
    const ended = Promise.all([use.leave(), kept])
      .then(() => use.end())
      .finally(() => ending.delete(ended))
    ending.add(ended)
  }

  /** One that was given to a sandbox before: it is that one's, whatever has become of it. */
  const goOn = async ({ id, sandbox }: PendingPrompt): Promise<Use | undefined> => {
    if (sandbox === null) return undefined
    try {
      return await sandboxes.resume(sandbox, claimOf(id))
    } catch (thrown) {
      if (!isEnded(thrown)) throw thrown
      await interruptWhenGone(id, sandbox)
      return undefined
    }
  }

  /** All that the sandbox had said is stored by then. */
  const interruptWhenGone = async (prompt: PromptId, sandbox: SandboxId): Promise<void> => {
    await sandboxes.gone(sandbox, over.signal)
    const reason = "its sandbox ended while it had it"
    await changes.end(prompt, { state: "interrupted", reason })
  }

  /** Finds it a sandbox. undefined: it has ended, in whatever way. */
  const give = async (prompt: PendingPrompt, signal: AbortSignal): Promise<Use | undefined> => {
    const { id, session } = prompt
    const stopped = whenOver(prompt, signal)
    const either = AbortSignal.any([signal, stopped.signal])
    const startedMs = performance.now()
    let told = ""
    try {
      for (let waitMs = FIRST_RETRY_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_RETRY_MS)) {
        try {
          return await offer(await findUse(prompt, either), prompt, either)
        } catch (thrown) {
          if (either.aborted) return undefined
          const error = errorOf(thrown)
          const isToldAnew = TOLD_ANEW.has(error.code)
          const isPatient = isToldAnew || performance.now() - startedMs < PATIENCE_MS
          if (error.retry === "never" || !isPatient) {
            await fail(id, error)
            return undefined
          }
          if (error.message !== told) {
            told = error.message
            const message = `it waits for a sandbox: ${error.message}`
            await changes.tell(session, { type: "warning", prompt: id, message })
          }
          // It was waited for already.
          if (isToldAnew) waitMs = FIRST_RETRY_MS
          await pause(waitMs, undefined, { signal: either }).catch(() => {})
        }
      }
    } finally {
      stopped.release()
    }
  }

  /** Where its session is, if it keeps that: nobody who works in a sandbox is sent to another. */
  const findUse = async (
    { id, session, workspace }: PendingPrompt,
    signal: AbortSignal,
  ): Promise<Use> => {
    const kept = await presence.of(session)
    try {
      if (kept !== undefined) return await sandboxes.useOnly(kept, claimOf(id))
    } catch (thrown) {
      if (!isEnded(thrown)) throw thrown
    }
    return await sandboxes.useOf(workspace, claimOf(id), signal)
  }

  const offer = async (
    use: Use,
    { id, session, workspace, agent }: PendingPrompt,
    signal: AbortSignal,
  ): Promise<Use | undefined> => {
    try {
      // It may have been changed while the prompt waited, and what is a wish to one is a command to another. Every
      // sandbox runs the shell: one whose supervisor does not is of an earlier toolbox, and replaced before it is used.
      const there = sandboxes.kept(use.sandbox).agent
      if (there !== agent && agent !== "shell")
        throw agentChanged({ session, workspace, was: agent, is: there })
      for (const { name, content } of await rows.attachments(id))
        await sandboxes.putFile(use.sandbox, attachmentPath(id, name), content, signal)
      if (await changes.give(id, use.sandbox)) return use
      await use.end()
      return undefined
    } catch (thrown) {
      await use.end()
      throw thrown
    }
  }

  /** Until its end is stored. It is said again after every break, and a repeat changes nothing. */
  const attend = async (
    prompt: PendingPrompt & { readonly sandbox: SandboxId },
    signal: AbortSignal,
  ): Promise<void> => {
    const { id, session, sandbox } = prompt
    const gone = keepTrying(session, () => sandboxes.gone(sandbox, signal), signal)
    const isGone = gone.then(() => !signal.aborted)
    let isStarted = false
    let isStopped = false
    let standing: PromptStanding = { state: "unknown" }
    // Before the look whether it is to stop: whoever asks for that while the sandbox is not reached has the last word.
    await reached(sandbox)
    for (let waitMs = FIRST_RETRY_MS; !signal.aborted; ) {
      const rung = bells.next(session, signal)
      const now = await currently(prompt)
      if (now === undefined) return
      try {
        if (now.isStopRequested && !isStopped) {
          standing = await sandboxes.kept(sandbox).stopPrompt(id)
          if (standing.state === "unknown") return await changes.end(id, { state: "stopped" })
          isStopped = true
        } else if (!isStarted && !now.isStopRequested) {
          const kept = sandboxes.kept(sandbox)
          standing = await kept.startPrompt(startOf(prompt, kept.agent))
          isStarted = true
        }
        const overdue = standing.state === "ended" ? after(toldWithinMs, signal) : never
        const next = await Promise.race([rung.then(() => "look"), isGone.then(toGone), overdue])
        if (next === "gone") return await interruptWhenGone(id, sandbox)
        if (next === "overdue" && standing.state === "ended")
          return await changes.end(id, standing.result)
      } catch (thrown) {
        if (signal.aborted) return
        const error = errorOf(thrown)
        if (error.code === "bridge.refused" && error.details.code === "internal")
          return await fail(id, error)
        log.debug({ op: "prompt.start", prompt: id, sandbox, err: error }, "is said again")
        waitMs = Math.min(2 * waitMs, LONGEST_RETRY_MS)
        const waited = pause(waitMs, false, { signal }).catch(() => false)
        if (await Promise.race([isGone, waited])) return await interruptWhenGone(id, sandbox)
      }
    }
  }

  /** Or it will never be: that is found out by whoever speaks to it next. */
  const reached = async (sandbox: SandboxId): Promise<void> => {
    try {
      await sandboxes.kept(sandbox).connected
    } catch {}
  }

  /** undefined: it has ended. */
  const currently = async ({ id, session }: PendingPrompt): Promise<PendingPrompt | undefined> => {
    const next = await rows.next(session)
    return next?.id === id ? next : undefined
  }

  /** Fires when the prompt waits no more, as when it is stopped. */
  const whenOver = ({ id, session }: PendingPrompt, signal: AbortSignal) => {
    const stopped = new AbortController()
    const done = new AbortController()
    const watch = async () => {
      const until = AbortSignal.any([signal, done.signal])
      while (!until.aborted) {
        const rung = bells.next(session, until)
        if (!(await rows.isPending(id))) return stopped.abort()
        await rung
      }
    }
    void watch().catch(() => {})
    return { signal: stopped.signal, release: () => done.abort() }
  }

  const fail = async (prompt: PromptId, { code, message, hint }: BerthError): Promise<void> => {
    const told = { type: "error", prompt, code, message, hint } as const
    await changes.end(prompt, { state: "failed", reason: message }, [told])
  }

  const wake = (session: SessionId): void => {
    bells.ring(session)
    if (led.has(session) || over.signal.aborted) return
    led.set(session, leadOn(session))
  }

  const leadOn = async (session: SessionId): Promise<void> => {
    await keepTrying(session, () => lead(session))
    led.delete(session)
    // What came between the last look and now.
    const next = await keepTrying(session, () => rows.next(session))
    if (next !== undefined) wake(session)
  }

  /** What is accepted waits for as long as it takes. undefined: it is let go of. */
  const keepTrying = async <Result>(
    session: SessionId,
    work: () => Promise<Result>,
    signal = over.signal,
  ): Promise<Result | undefined> => {
    for (let waitMs = FIRST_RETRY_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_RETRY_MS)) {
      try {
        return await work()
      } catch (err) {
        if (signal.aborted) return undefined
        log.error({ op: "session.lead", session, err }, "is tried again")
        await pause(waitMs, undefined, { signal }).catch(() => {})
      }
    }
  }

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
    close: async () => {
      over.abort()
      await Promise.allSettled([...led.values(), ...ending])
    },
  }
}

const startOf = (
  { id, session, text, attachments, deadlineMs, agent }: PendingPrompt,
  there: AgentSpec["kind"],
) => ({
  ...{ prompt: id, session, text },
  ...(attachments.length > 0 && {
    attachments: attachments.map((name) => attachmentPath(id, name)),
  }),
  ...(deadlineMs !== null && { deadlineMs }),
  ...(agent === "shell" && there !== "shell" && { agent }),
})

/** In the home, so that whoever looks at the conversation later finds it. */
const attachmentPath = (prompt: PromptId, name: string): string =>
  `${AGENT_USER.home}/attachments/${prompt}/${name}`

const never = new Promise<never>(() => {})

const after = async (ms: number, signal: AbortSignal): Promise<"overdue" | "look"> => {
  try {
    return await pause(ms, "overdue" as const, { signal })
  } catch {
    return "look"
  }
}

const toGone = (isGone: boolean): "gone" | "look" => (isGone ? "gone" : "look")

const isEnded = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "sandbox.ended"

const errorOf = (thrown: unknown): BerthError =>
  thrown instanceof BerthError
    ? thrown
    : new BerthError("internal", "unexpected failure", { cause: thrown })
