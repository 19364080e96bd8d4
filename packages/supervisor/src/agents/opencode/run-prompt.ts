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
export const runPrompt = async (start: PromptStart, parts: PromptParts): Promise<PromptResult> => {
  const { client, clock, where, session, model, asks, say, signal } = parts
  const { endProcess, replaceCrashed } = parts
  const { prompt } = start
  const text = withAttachments(start.text, start.attachments)
  const explained = (words: string) => explain(words, model)
  const conversation = new Conversation(prompt, session, parts.directory, explained)
  const deadlines = new Deadlines(clock)
  const over = new AbortController()
  const events = client.events(`/event${where}`, over.signal)
  let mayWork = false
  let hasBegun = false

  const abort = () => {
    client.post(`/session/${session}/abort${where}`, { limitMs: STOP_WITHIN_MS }).catch(() => {})
  }
  const end = () => {
    abort()
    // The deadline is set here, not in the `finally` below: recording the agent's events may take longer than a stop
    // may.
    deadlines.set("stop", STOP_WITHIN_MS, () => {
      over.abort()
      void endProcess()
    })
  }
  /**
   * Called when the event stream broke off. OpenCode may still be at work: if it stops this conversation, prompts of
   * other sessions continue in the same process.
   */
  const endBroken = async (): Promise<void> => {
    try {
      await stopUnheard(client, { session, where })
    } catch (thrown) {
      return await (hasCrashed(thrown) ? replaceCrashed() : endProcess())
    }
    // An abort that arrived before OpenCode began has stopped nothing.
    if (!hasBegun) await endProcess()
  }
  const stop = () => (mayWork ? end() : over.abort())
  signal.addEventListener("abort", stop, { once: true })
  deadlines.set("begin", BEGIN_WITHIN_MS, () => over.abort(neverBegan(conversation)))
  try {
    // The first batch says that the stream is open. From here on no event is missed.
    await events.next()
    if (signal.aborted) return { state: "stopped" }
    mayWork = true
    await client
      .post(`/session/${session}/prompt_async${where}`, {
        body: {
          model,
          ...(parts.isHeld && { system: HELD_INSTRUCTION }),
          parts: [{ type: "text", text, metadata: { [MARK]: prompt } }],
        },
      })
      .catch((thrown) => {
        mayWork = !isRefusal(thrown)
        throw thrown
      })
    for await (const piece of events) {
      const [wasBusy, wasHopeless] = [conversation.isBusy, conversation.isHopeless]
      const heard = piece.map((event) => conversation.hear(event))
      if (conversation.isBusy && !wasBusy) {
        hasBegun = true
        deadlines.clear("begin")
        // A stop that arrived before OpenCode began has stopped nothing.
        if (signal.aborted) abort()
      }
      for (const body of together(heard.flatMap(({ bodies }) => bodies))) await say(body)
      for (const asked of heard.flatMap((each) => each.asked)) await asks.ask(asked)
      for (const settled of heard.flatMap((each) => each.settled)) await asks.settled(settled)
      if (conversation.isOver) break
      if (conversation.isHopeless && !wasHopeless) end()
      if (conversation.isIdle) deadlines.set("settle", SETTLE_MS, () => over.abort())
      else deadlines.clear("settle")
    }
    return resultOf(conversation, signal, over.signal)
  } finally {
    signal.removeEventListener("abort", stop)
    deadlines.clearAll()
    const end = over.signal.aborted ? endProcess : endBroken
    over.abort()
    await events.return(undefined)
    if (mayWork && !conversation.isIdle) await end()
    for (const body of conversation.close()) await say(body)
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
