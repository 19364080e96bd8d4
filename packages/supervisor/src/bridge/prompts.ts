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
import { endsToldIn } from "./told.ts"

/** Does what a prompt asks for. It has appended its events, or at least said them, when it resolves. */
export type RunPrompt = (start: PromptStart, signal: AbortSignal) => Promise<PromptResult>

/** Passes on what a person answers to what was asked while a prompt runs. False: nothing waits for it. */
export type AnswerAsk = (prompt: PromptId, answer: AskAnswer) => boolean

export interface PromptsOptions {
  readonly ledger: Ledger
  readonly journal: Journal
  readonly run: RunPrompt
  /** Default: nothing is ever asked. */
  readonly answer?: AnswerAsk
  /** Called with those that wait or run, whenever these are others. */
  readonly onChange?: (prompts: readonly PromptId[]) => void
  /** Ends the opening while a full disk holds it up. */
  readonly signal?: AbortSignal
}

/** What still has to be written when the supervisor ends gets this long. */
const CLOSE_GRACE_MS = 2_000

const INTERRUPTED = {
  state: "interrupted",
  reason: "the sandbox's supervisor ended while the prompt ran",
} as const
const SHUT_DOWN = { state: "interrupted", reason: "the sandbox was stopped" } as const

/**
 * Takes up what the ledger knows: what ran when the last supervisor ended is interrupted, what was only
 * accepted waits for the gate, and ends that are not in the journal are told.
 */
export const openPrompts = async (options: PromptsOptions): Promise<Prompts> => {
  const { ledger, journal } = options
  const release = journal.hold(journal.first)
  const prompts = new Prompts(options)
  const { signal = prompts.givenUp } = options
  try {
    for (const prompt of ledger.started)
      await keepTrying(() => ledger.end(prompt, INTERRUPTED), signal)
    const told = await endsToldIn(journal, ledger.unreported)
    for (const prompt of told) await keepTrying(() => ledger.report(prompt), signal)
  } finally {
    release()
  }
  prompts.resume()
  return prompts
}

/**
 * The prompts of a sandbox. Each is accepted at once, and runs only when the gate is open: those of one session
 * one after another. accepted → started → ended, each noted before anything follows from it.
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

  /** How many wait or run. */
  get count(): number {
    return this.#waiting.length + this.#running.size
  }

  /** Fires when nothing more is written. */
  get givenUp(): AbortSignal {
    return this.#giveUp.signal
  }

  /** Takes up what an earlier supervisor left. */
  resume(): void {
    for (const { prompt, result } of this.#ledger.unreported)
      this.#inBackground(this.#tell(prompt, result))
    this.#waiting.push(...this.#ledger.accepted)
    this.#changed()
    this.#pump()
  }

  /** The last required step of the boot is done: prompts pass. */
  open(): void {
    this.#isOpen = true
    this.#pump()
  }

  /** Takes a prompt on, and says how far it has come. A repeat changes nothing. */
  start(start: PromptStart): Promise<PromptStanding> {
    return this.#inTurn(start.prompt, async () => {
      const known = this.#ledger.standing(start.prompt)
      if (known.state !== "unknown") return known
      return await this.#accept(start)
    })
  }

  /** A prompt that nothing holds up has its place among those that run before anything is written. */
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

  /** Whether a prompt of this session may start at once: the gate is open, and none of its prompts comes before. */
  #isFree(session: SessionId): boolean {
    if (!this.#isOpen || this.#closed !== undefined) return false
    const before = [...this.#running.values(), ...this.#arriving, ...this.#waiting]
    return before.every((other) => other.session !== session)
  }

  /** One that waits ends at once; one that runs is told to end, and its events tell when it has. */
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

  /** Rejects with `session.nothing_asked` where no running prompt waits for it. */
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

  /** Interrupts what runs; what waits stays accepted, for the next supervisor. Twice is as good as once. */
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

  /** Starts what may start: the first that waits of every session that is free. */
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

  /** From its start to its end. */
  async #lead(start: PromptStart, stop: AbortController): Promise<void> {
    const { prompt } = start
    const deadline = new Deadline(start.deadlineMs, stop)
    try {
      if (this.#ledger.standing(prompt).state === "accepted")
        await keepTrying(() => this.#ledger.start(prompt), this.givenUp)
      // The ledger has it on disk already: after a power loss, the prompt is interrupted.
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

  /** What was stopped because its time was over has failed, and says so. */
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

  /** The event stays in the journal until the ledger says that it was there, so that it is told once. */
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

  /** What is said of one prompt is done, and answered, in the order in which it was said. */
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
    // What could not be written is found, and done, by the next supervisor.
    const settled = task.catch(() => {}).finally(() => this.#work.delete(settled))
    this.#work.add(settled)
  }
}

const clip = ({ state, reason }: PromptResult): PromptResult =>
  reason === undefined ? { state } : { state, reason: reason.slice(0, MAX_REASON_CHARS) }
