import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { PromptWait } from "@berth/protocol/session"
import type { Logger } from "../logging/logger.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { FailPoint } from "../sandboxes/state/fail-point.ts"
import type { EndOverdueParts } from "./end-overdue.ts"
import { type KeepTrying, openKeepTrying } from "./keep-trying.ts"
import { LIMITS, type Limits } from "./limits.ts"
import type { Presence } from "./presence.ts"
import { PromptRun, type PromptRunParts } from "./prompt-run.ts"
import type { OpenPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import { Waits } from "./waits.ts"

export interface DriverParts {
  readonly stored: Stored
  readonly sandboxes: PromptRunParts["sandboxes"] & Pick<UsedSandboxes, "endUses">
  readonly presence: Pick<Presence, "of" | "work">
  readonly clock: Clock
  readonly log: Logger
  readonly endProcesses: EndOverdueParts["endProcesses"]
  readonly at: FailPoint
  /** Default: LIMITS. */
  readonly limits?: Partial<Limits>
}

/** Drives prompts from their place in the queue to their end, those of one session one after another. */
export class Driver {
  readonly #parts: DriverParts
  readonly #runParts: PromptRunParts
  readonly #keepTrying: KeepTrying
  readonly #waits: Waits
  readonly #over = new AbortController()
  /** The sessions whose queues are being drained. */
  readonly #draining = new Map<SessionId, Promise<void>>()
  /** The prompts that run or wait for their sandbox: at most one of each session. */
  readonly #runs = new Map<SessionId, PromptRun>()
  /** The uses of sandboxes that end. */
  readonly #ending = new Set<Promise<void>>()

  constructor(parts: DriverParts) {
    this.#parts = parts
    this.#waits = new Waits(parts.clock)
    this.#keepTrying = openKeepTrying(parts.log)
    this.#runParts = {
      ...parts,
      waits: this.#waits,
      keepTrying: this.#keepTrying,
      limits: { ...LIMITS, ...parts.limits },
    }
  }

  /** Resumes the prompts that the store has. Called once. */
  async start(): Promise<void> {
    const { stored, sandboxes } = this.#parts
    const sessions = await stored.rows.busy()
    const running = new Set<string | null>()
    for (const session of sessions) {
      const next = await stored.rows.next(session)
      if (next?.sandbox != null) running.add(next.id)
    }
    await sandboxes.endUses(["prompt"], (subject) => !running.has(subject))
    for (const session of sessions) this.wake(session)
  }

  /** Looks whether the session has something to do. */
  wake(session: SessionId): void {
    this.#runs.get(session)?.look()
    if (this.#draining.has(session) || this.#over.signal.aborted) return
    this.#draining.set(session, this.#drainAndLook(session))
  }

  /** The reason why the prompt waits; null: it does not, or the reason is not known yet. */
  waitOf(prompt: PromptId): PromptWait | null {
    return this.#waits.of(prompt)
  }

  /** Stops driving prompts. Running prompts continue in their sandboxes; the next server resumes them. */
  async close(): Promise<void> {
    this.#over.abort()
    await Promise.allSettled([...this.#draining.values(), ...this.#ending])
  }

  async #drainAndLook(session: SessionId): Promise<void> {
    const { signal } = this.#over
    await this.#keepTrying(session, () => this.#drainQueue(session), signal)
    this.#draining.delete(session)
    // Prompts may have come between the last look and now.
    const { rows } = this.#parts.stored
    const next = await this.#keepTrying(session, () => rows.next(session), signal)
    if (next !== undefined) this.wake(session)
  }

  async #drainQueue(session: SessionId): Promise<void> {
    for (;;) {
      const prompt = await this.#parts.stored.rows.next(session)
      if (prompt === undefined || this.#over.signal.aborted) return
      await this.#runPrompt(prompt)
    }
  }

  async #runPrompt(prompt: OpenPrompt): Promise<void> {
    const leave = new AbortController()
    const signal = AbortSignal.any([this.#over.signal, leave.signal])
    const run = new PromptRun(this.#runParts, prompt, signal)
    this.#runs.set(prompt.session, run)
    try {
      await run.run()
      // A prompt that goes on without this server keeps its sandbox until the next server resumes it.
      if (!this.#over.signal.aborted) this.#end(run)
    } finally {
      this.#runs.delete(prompt.session)
      leave.abort()
    }
  }

  /** Ends the use of the sandbox. Nobody waits for that: it takes a while to look for what the prompt left running. */
  #end(run: PromptRun): void {
    const ended = run.use.end().finally(() => this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}
