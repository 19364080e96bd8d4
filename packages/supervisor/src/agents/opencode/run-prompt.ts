import { setTimeout as pause } from "node:timers/promises"
import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../../processes/clock.ts"
import type { Say } from "../agent.ts"
import { withAttachments } from "../attachments.ts"
import { HELD_INSTRUCTION } from "../held.ts"
import { objectIn } from "../read.ts"
import { together } from "../together.ts"
import type { Asks } from "./asks.ts"
import type { Client } from "./client.ts"
import { Conversation, MARK } from "./conversation.ts"
import { Deadlines } from "./deadlines.ts"
import type { Model } from "./model.ts"
import { explain } from "./usable-model.ts"

/**
 * How long OpenCode may take to become idle after a stop. Its process is ended then, for which the rest of the second
 * is left.
 */
export const STOP_WITHIN_MS = 700
/** Time that OpenCode may take to begin with a prompt. The first time, it loads every provider. */
export const BEGIN_WITHIN_MS = 60_000
/** Time to wait for the last events after OpenCode became idle. They arrive within some 100 ms. */
export const SETTLE_MS = 300

/** Interval between two checks whether a conversation without an event stream has stopped. */
const STATUS_EVERY_MS = 50

export interface PromptParts {
  readonly client: Client
  readonly clock: Clock
  /** The query parameter that names the directory. */
  readonly where: string
  /** OpenCode's own id of the conversation. */
  readonly session: string
  readonly model: Model | undefined
  readonly directory: string
  readonly asks: Asks
  readonly isHeld: boolean
  readonly say: Say
  /** Fires when the prompt is to be stopped. */
  readonly signal: AbortSignal
  /** Ends OpenCode's process if OpenCode does not stop when asked. */
  readonly endProcess: () => Promise<void>
  /** Replaces OpenCode's process after a crash. */
  readonly replaceCrashed: () => Promise<void>
}

/** Sends a prompt to OpenCode, and passes on its events until it is idle. */
export const runPrompt = (start: PromptStart, parts: PromptParts): Promise<PromptResult> =>
  new PromptRun(start, parts).run()

/** One prompt in OpenCode, from its delivery to its end. */
class PromptRun {
  readonly #start: PromptStart
  readonly #parts: PromptParts
  readonly #conversation: Conversation
  readonly #deadlines: Deadlines
  /** Ends the event stream. Its reason, if it is an error, is why the prompt fails. */
  readonly #over = new AbortController()
  /** Whether OpenCode has, or may have, got the prompt. */
  #mayWork = false
  #hasBegun = false

  constructor(start: PromptStart, parts: PromptParts) {
    const explained = (words: string) => explain(words, parts.model)
    this.#start = start
    this.#parts = parts
    this.#conversation = new Conversation(start.prompt, parts.session, parts.directory, explained)
    this.#deadlines = new Deadlines(parts.clock)
  }

  async run(): Promise<PromptResult> {
    const { client, where, signal } = this.#parts
    const events = client.events(`/event${where}`, this.#over.signal)
    const stop = () => (this.#mayWork ? this.#stopWork() : this.#over.abort())
    signal.addEventListener("abort", stop, { once: true })
    this.#deadlines.set("begin", BEGIN_WITHIN_MS, () =>
      this.#over.abort(neverBegan(this.#conversation)),
    )
    try {
      // The first batch says that the stream is open. From here on no event is missed.
      await events.next()
      if (signal.aborted) return { state: "stopped" }
      await this.#deliver()
      for await (const batch of events) {
        await this.#take(batch)
        if (this.#conversation.isOver) break
      }
      return resultOf(this.#conversation, signal, this.#over.signal)
    } finally {
      signal.removeEventListener("abort", stop)
      await this.#end(events)
    }
  }

  async #deliver(): Promise<void> {
    const { client, session, where, model, isHeld } = this.#parts
    const { prompt } = this.#start
    const text = withAttachments(this.#start.text, this.#start.attachments)
    this.#mayWork = true
    const body = {
      model,
      ...(isHeld && { system: HELD_INSTRUCTION }),
      parts: [{ type: "text", text, metadata: { [MARK]: prompt } }],
    }
    await client.post(`/session/${session}/prompt_async${where}`, { body }).catch((thrown) => {
      this.#mayWork = !isRefusal(thrown)
      throw thrown
    })
  }

  /** Passes on a batch of OpenCode's events. */
  async #take(batch: readonly unknown[]): Promise<void> {
    const { asks, say } = this.#parts
    const conversation = this.#conversation
    const [wasBusy, wasHopeless] = [conversation.isBusy, conversation.isHopeless]
    const heard = batch.map((event) => conversation.hear(event))
    if (conversation.isBusy && !wasBusy) this.#onBegun()
    for (const body of together(heard.flatMap(({ bodies }) => bodies))) await say(body)
    for (const asked of heard.flatMap((each) => each.asked)) await asks.ask(asked)
    for (const settled of heard.flatMap((each) => each.settled)) await asks.settled(settled)
    if (conversation.isOver) return
    if (conversation.isHopeless && !wasHopeless) this.#stopWork()
    if (conversation.isIdle) this.#deadlines.set("settle", SETTLE_MS, () => this.#over.abort())
    else this.#deadlines.clear("settle")
  }

  #onBegun(): void {
    this.#hasBegun = true
    this.#deadlines.clear("begin")
    // A stop that arrived before OpenCode began has stopped nothing.
    if (this.#parts.signal.aborted) this.#abort()
  }

  /** Asks OpenCode to stop, and ends its process if it does not. */
  #stopWork(): void {
    this.#abort()
    // The deadline is set here, not in `#end`: recording the agent's events may take longer than a stop may.
    this.#deadlines.set("stop", STOP_WITHIN_MS, () => {
      this.#over.abort()
      void this.#parts.endProcess()
    })
  }

  #abort(): void {
    const { client, session, where } = this.#parts
    client.post(`/session/${session}/abort${where}`, { limitMs: STOP_WITHIN_MS }).catch(() => {})
  }

  async #end(events: AsyncGenerator<unknown>): Promise<void> {
    this.#deadlines.clearAll()
    const wasOver = this.#over.signal.aborted
    this.#over.abort()
    await events.return(undefined)
    if (this.#mayWork && !this.#conversation.isIdle)
      await (wasOver ? this.#parts.endProcess() : this.#endBroken())
    for (const body of this.#conversation.close()) await this.#parts.say(body)
  }

  /**
   * Ends the work when the event stream broke off. OpenCode may still be at work: if it stops this conversation,
   * prompts of other sessions continue in the same process.
   */
  async #endBroken(): Promise<void> {
    const { client, endProcess, replaceCrashed } = this.#parts
    try {
      await stopUnheard(client, this.#parts)
    } catch (thrown) {
      return await (hasCrashed(thrown) ? replaceCrashed() : endProcess())
    }
    // An abort that arrived before OpenCode began has stopped nothing.
    if (!this.#hasBegun) await endProcess()
  }
}

const resultOf = (
  { isIdle, isAborted, isHopeless, error }: Conversation,
  signal: AbortSignal,
  over: AbortSignal,
): PromptResult => {
  if (signal.aborted) return isIdle ? { state: "stopped" } : STOPPED_BY_FORCE
  if (over.reason instanceof BerthError) throw over.reason
  if (isHopeless && error !== undefined) return { state: "failed", reason: error }
  if (!isIdle) throw new BerthError("agent.unavailable", "OpenCode ended while the prompt ran")
  if (error !== undefined) return { state: "failed", reason: error }
  return isAborted ? STOPPED_INSIDE : { state: "succeeded" }
}

const STOPPED_BY_FORCE = {
  state: "stopped",
  reason: `OpenCode did not stop within ${STOP_WITHIN_MS} ms, so its process was ended`,
} as const
const STOPPED_INSIDE = { state: "stopped", reason: "it was stopped inside the sandbox" } as const

/** Stops a conversation without its event stream. Throws if it does not stop in time. */
const stopUnheard = async (
  client: Client,
  { session, where }: Pick<PromptParts, "session" | "where">,
): Promise<void> => {
  const signal = AbortSignal.timeout(STOP_WITHIN_MS)
  await client.post(`/session/${session}/abort${where}`, { signal })
  for (;;) {
    const busy = objectIn(await client.get(`/session/status${where}`, { signal }))
    if (busy[session] === undefined) return
    await pause(STATUS_EVERY_MS, undefined, { signal })
  }
}

/** Whether OpenCode's process does not answer any more. */
const hasCrashed = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "agent.unavailable"

const isRefusal = (thrown: unknown): boolean =>
  thrown instanceof BerthError && typeof thrown.details.status === "number"

const neverBegan = ({ error = "it did not say why" }: Conversation): BerthError =>
  new BerthError(
    "agent.failed",
    `OpenCode took the prompt and did not begin with it in ${BEGIN_WITHIN_MS} ms: ${error}`,
  )
