import type { PromptResult, PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import type { Appended, Journal } from "../journal/journal.ts"
import { keepTrying } from "../journal/keep-trying.ts"
import type { Ledger } from "../journal/ledger.ts"
import { Deadline, isOverdue } from "./deadline.ts"
import { reportedEndsIn } from "./reported-ends.ts"

/** Runs a prompt. When it resolves, its events have been appended, or at least passed to `say`. */
export type RunPrompt = (start: PromptStart, signal: AbortSignal) => Promise<PromptResult>

/** Passes on a person's answer to a running prompt's ask. Returns false if nothing waits for it. */
export type AnswerAsk = (prompt: PromptId, answer: AskAnswer) => boolean

export interface PromptsOptions {
  readonly ledger: Ledger
  readonly journal: Journal
  readonly run: RunPrompt
  /** Default: no prompt ever asks. */
  readonly answer?: AnswerAsk
  /** Called with the prompts that wait or run, whenever these change. */
  readonly onChange?: (prompts: readonly PromptId[]) => void
  /** Ends the opening while a full disk holds it up. */
  readonly signal?: AbortSignal
}

/** Time for the remaining writes when the supervisor ends. */
const CLOSE_GRACE_MS = 2_000

const INTERRUPTED = {
  state: "interrupted",
  reason: "the sandbox's supervisor ended while the prompt ran",
} as const
const SHUT_DOWN = { state: "interrupted", reason: "the sandbox was stopped" } as const

/**
 * Resumes from the ledger: prompts that ran when the last supervisor ended are interrupted, those that were only
 * accepted wait for the gate, and ends that are not in the journal are reported.
 */
export const openPrompts = async (options: PromptsOptions): Promise<Prompts> => {
  const { ledger, journal } = options
  const release = journal.hold(journal.first)
  const prompts = new Prompts(options)
  const { signal = prompts.givenUp } = options
  try {
    for (const prompt of ledger.started)
      await keepTrying(() => ledger.end(prompt, INTERRUPTED), signal)
    const told = await reportedEndsIn(journal, ledger.unreported)
    for (const prompt of told) await keepTrying(() => ledger.report(prompt), signal)
  } finally {
    release()
  }
  prompts.resume()
  return prompts
}

/**
 * The prompts of a sandbox. Each is accepted at once, and runs only when the gate is open; prompts of one session run
 * one after another. Their states, accepted → started → ended, are each noted before anything follows from them.
 */
export class Prompts {
  readonly #ledger: Ledger
  readonly #journal: Journal
  readonly #run: RunPrompt
  readonly #answer: AnswerAsk
  readonly #onChange: (prompts: readonly PromptId[]) => void
  #waiting: PromptStart[] = []
  /** The prompts that are being noted as accepted. */
  readonly #arriving = new Set<PromptStart>()
  readonly #running = new Map<PromptId, { session: SessionId; stop: AbortController }>()
  readonly #turns = new Map<PromptId, Promise<void>>()
  readonly #work = new Set<Promise<void>>()
  readonly #giveUp = new AbortController()
  #isOpen = false
  #closed: Promise<void> | undefined

  constructor(options: PromptsOptions) {
    const { ledger, journal, run, answer = () => false, onChange = () => {} } = options
    this.#ledger = ledger
    this.#journal = journal
    this.#run = run
    this.#answer = answer
    this.#onChange = onChange
  }

  /** The number of prompts that wait or run. */
  get count(): number {
    return this.#waiting.length + this.#running.size
  }

  /** Fires when nothing more is written. */
  get givenUp(): AbortSignal {
    return this.#giveUp.signal
  }

  /** Takes over the prompts that an earlier supervisor left. */
  resume(): void {
    for (const { prompt, result } of this.#ledger.unreported)
      this.#inBackground(this.#tell(prompt, result))
    this.#waiting.push(...this.#ledger.accepted)
    this.#changed()
    this.#pump()
  }

  /** Opens the gate, when the last required step of the boot is done. */
  open(): void {
    this.#isOpen = true
    this.#pump()
  }

  /** Accepts a prompt, and returns its state. A repeat changes nothing. */
  start(start: PromptStart): Promise<PromptStanding> {
    return this.#inTurn(start.prompt, async () => {
      const known = this.#ledger.standing(start.prompt)
      if (known.state !== "unknown") return known
      return await this.#accept(start)
    })
  }

  /** Accepts a new prompt. One that nothing holds up is among the running ones before anything is written. */
  async #accept(start: PromptStart): Promise<PromptStanding> {
    const stop = this.#isFree(start.session) ? new AbortController() : undefined
    if (stop !== undefined) this.#running.set(start.prompt, { session: start.session, stop })
    this.#arriving.add(start)
    try {
      const { standing } = await this.#ledger.accept(start, { startsNow: stop !== undefined })
      if (stop === undefined) this.#waiting.push(start)
      else this.#inBackground(this.#lead(start, stop))
      this.#changed()
      return standing
    } catch (thrown) {
      this.#running.delete(start.prompt)
      throw thrown
    } finally {
      this.#arriving.delete(start)
      this.#pump()
    }
  }

  /**
   * Whether a prompt of this session may start at once: the gate is open, and no other prompt of the session comes
   * before.
   */
  #isFree(session: SessionId): boolean {
    if (!this.#isOpen || this.#closed !== undefined) return false
    const before = [...this.#running.values(), ...this.#arriving, ...this.#waiting]
    return before.every((other) => other.session !== session)
  }

  /** Stops a prompt. A waiting one ends at once; a running one is told to end, and its events tell when it has. */
  stop(prompt: PromptId): Promise<PromptStanding> {
    return this.#inTurn(prompt, async () => {
      this.#running.get(prompt)?.stop.abort()
      const waiting = this.#waiting.filter((start) => start.prompt !== prompt)
      const waited = waiting.length < this.#waiting.length
      this.#waiting = waiting
      if (waited) {
        await this.#end(prompt, { state: "stopped" })
        this.#changed()
      }
      return this.#ledger.standing(prompt)
    })
  }

  /** Passes on a person's answer. Rejects with `session.nothing_asked` if no running prompt waits for it. */
  answer(prompt: PromptId, answer: AskAnswer): Promise<PromptStanding> {
    return this.#inTurn(prompt, async () => {
      const standing = this.#ledger.standing(prompt)
      if (standing.state !== "started" || !this.#answer(prompt, answer))
        throw new BerthError(
          "session.nothing_asked",
          `nothing waits for an answer to ${answer.ask}`,
        )
      return standing
    })
  }

  /**
   * Interrupts the running prompts. Waiting ones stay accepted, for the next supervisor. A second call waits for the
   * same end.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    const grace = setTimeout(() => this.#giveUp.abort(), CLOSE_GRACE_MS)
    for (const { stop } of this.#running.values()) stop.abort()
    await Promise.all(this.#work)
    clearTimeout(grace)
    this.#giveUp.abort()
  }

  /** Starts the prompts that may start: the first waiting one of every session without a running prompt. */
  #pump(): void {
    if (!this.#isOpen || this.#closed !== undefined) return
    const busy = new Set([...this.#running.values()].map(({ session }) => session))
    this.#waiting = this.#waiting.filter((start) => {
      if (busy.has(start.session)) return true
      busy.add(start.session)
      const stop = new AbortController()
      this.#running.set(start.prompt, { session: start.session, stop })
      this.#inBackground(this.#lead(start, stop))
      return false
    })
  }

  /** Runs a prompt, from its start to its end. */
  async #lead(start: PromptStart, stop: AbortController): Promise<void> {
    const { prompt } = start
    const deadline = new Deadline(start.deadlineMs, stop)
    try {
      if (this.#ledger.standing(prompt).state === "accepted")
        await keepTrying(() => this.#ledger.start(prompt), this.givenUp)
      // Not durable: the ledger has it on disk already, and after a power loss the prompt is interrupted.
      await this.#append({ type: "prompt.state", prompt, state: "running" }, { durable: false })
      const result = await this.#perform(start, stop.signal)
      deadline.clear()
      await this.#end(prompt, await this.#judge(prompt, result, stop.signal))
    } finally {
      deadline.clear()
      this.#running.delete(prompt)
      this.#changed()
      this.#pump()
    }
  }

  #changed(): void {
    this.#onChange([...this.#running.keys(), ...this.#waiting.map(({ prompt }) => prompt)])
  }

  async #perform(start: PromptStart, signal: AbortSignal): Promise<PromptResult> {
    try {
      if (signal.aborted) return this.#closed ? SHUT_DOWN : { state: "stopped" }
      const result = await this.#run(start, signal)
      return signal.aborted && this.#closed ? SHUT_DOWN : result
    } catch (thrown) {
      if (signal.aborted) return this.#closed ? SHUT_DOWN : { state: "stopped" }
      return { state: "failed", reason: thrown instanceof Error ? thrown.message : String(thrown) }
    }
  }

  /** Turns a stop because of the deadline into a failure, and reports it. */
  async #judge(
    prompt: PromptId,
    result: PromptResult,
    { reason }: AbortSignal,
  ): Promise<PromptResult> {
    if (result.state !== "stopped" || !isOverdue(reason)) return result
    const { code, message, hint } = reason
    await this.#append({ type: "error", prompt, code, message, hint })
    return { state: "failed", reason: message }
  }

  async #end(prompt: PromptId, result: PromptResult): Promise<void> {
    const clipped = clip(result)
    await keepTrying(() => this.#ledger.end(prompt, clipped), this.givenUp)
    await this.#tell(prompt, clipped)
  }

  /**
   * Reports the end of a prompt. The event is held in the journal until the ledger has noted it, so that it is reported
   * once.
   */
  async #tell(prompt: PromptId, result: PromptResult): Promise<void> {
    const { release } = await this.#append(
      { type: "prompt.state", prompt, ...result },
      { held: true },
    )
    await keepTrying(() => this.#ledger.report(prompt), this.givenUp)
    release()
  }

  #append(
    body: EventBody,
    { durable = true, held = false }: { readonly durable?: boolean; readonly held?: boolean } = {},
  ): Promise<Appended> {
    const signal = this.givenUp
    return keepTrying(() => this.#journal.append(body, { durable, held, signal }), signal)
  }

  /** Runs the tasks of one prompt, and answers them, in the order of the calls. */
  async #inTurn<Result>(prompt: PromptId, task: () => Promise<Result>): Promise<Result> {
    const result = (this.#turns.get(prompt) ?? Promise.resolve()).then(task)
    const turn = result.then(
      () => {},
      () => {},
    )
    this.#turns.set(prompt, turn)
    try {
      return await result
    } finally {
      if (this.#turns.get(prompt) === turn) this.#turns.delete(prompt)
    }
  }

  #inBackground(task: Promise<void>): void {
    // A write that failed is found, and repeated, by the next supervisor.
    const settled = task.catch(() => {}).finally(() => this.#work.delete(settled))
    this.#work.add(settled)
  }
}

const clip = ({ state, reason }: PromptResult): PromptResult =>
  reason === undefined ? { state } : { state, reason: reason.slice(0, MAX_REASON_CHARS) }
