import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { type Json, objectIn, textIn, wordsOf } from "./read.ts"

/** In the metadata of what we give to OpenCode, so that it is known again. */
export const MARK = "berth"

/** Messages, parts and calls of one prompt that are kept in mind: no agent comes near it, and no memory fills. */
const MAX_KEPT = 20_000
/** Names that an agent gives to calls and tools. */
const MAX_NAME_CHARS = 256
const MAX_WORDS = 4_000

/** What OpenCode wants to know before it goes on. */
export interface Ask {
  readonly kind: "permission" | "question"
  readonly id: string
  readonly about: string
}

/**
 * What OpenCode says of one prompt, as events of ours.
 *
 * It begins with the part that carries our mark: what comes before belongs to an earlier prompt. Then it is
 * busy, then idle. A prompt that fails or is stopped is called idle twice, and its messages and calls end in
 * between: so it is over when it is idle and none of them is open.
 */
export class Conversation {
  readonly #prompt: PromptId
  readonly #session: string
  /** Ours, and those that it opened for parts of the work. */
  readonly #sessions: Set<string>
  readonly #messages = new Map<string, "open" | "spoken" | "completed">()
  /** Parts that are text, with how much of it was passed on. */
  readonly #parts = new Map<string, number>()
  readonly #calls = new Map<string, "open" | "completed">()
  #phase: "before" | "begun" | "busy" | "idle" = "before"
  #error: string | undefined
  #isAborted = false

  constructor(prompt: PromptId, session: string) {
    this.#prompt = prompt
    this.#session = session
    this.#sessions = new Set([session])
  }

  get isIdle(): boolean {
    return this.#phase === "idle"
  }

  get isBusy(): boolean {
    return this.#phase === "busy"
  }

  /** Whether it is idle, and nothing more of it is to come. */
  get isOver(): boolean {
    return this.isIdle && !this.#hasOpen(this.#messages) && !this.#hasOpen(this.#calls)
  }

  /** In OpenCode's own words. */
  get error(): string | undefined {
    return this.#error
  }

  /** It was stopped, by whomever. */
  get isAborted(): boolean {
    return this.#isAborted
  }

  hear(event: unknown): { bodies: readonly EventBody[]; asks: readonly Ask[] } {
    const { type, properties } = objectIn(event)
    const said = objectIn(properties)
    const session = textIn(said.sessionID) ?? ""
    this.#noticeChild(type, objectIn(said.info))
    const asks = this.#sessions.has(session) ? askIn(type, said) : []
    const bodies = session === this.#session ? this.#bodiesOf(type, said) : []
    return { bodies, asks }
  }

  /** The ends of what never ended. */
  close(): EventBody[] {
    const prompt = this.#prompt
    const calls = [...this.#calls].filter(([, state]) => state === "open")
    const messages = [...this.#messages].filter(([, state]) => state === "spoken")
    return [
      ...calls.map(([call]) => ({ type: "tool.completed", prompt, call, failed: true }) as const),
      ...messages.map(([message]) => ({ type: "message.completed", prompt, message }) as const),
    ]
  }

  #bodiesOf(type: unknown, said: Json): EventBody[] {
    switch (type) {
      case "message.part.updated":
        return this.#part(objectIn(said.part))
      case "message.part.delta":
        return said.field === "text" ? this.#delta(said) : []
      case "message.updated":
        return this.#message(objectIn(said.info))
      case "session.status":
        return this.#status(objectIn(said.status))
      case "session.error":
        return this.#failure(said.error)
      default:
        return []
    }
  }

  #part(part: Json): EventBody[] {
    if (objectIn(part.metadata)[MARK] === this.#prompt && this.#phase === "before")
      this.#phase = "begun"
    if (part.type === "tool") return this.#call(part)
    if (part.type !== "text" || part.synthetic === true) return []
    const [id, text] = [textIn(part.id) ?? "", textIn(part.text) ?? ""]
    const passed = this.#parts.get(id) ?? 0
    keep(this.#parts, id, Math.max(passed, text.length))
    return this.#text(part.messageID, text.slice(passed))
  }

  #delta({ partID, messageID, delta }: Json): EventBody[] {
    const [id, text] = [textIn(partID) ?? "", textIn(delta) ?? ""]
    const passed = this.#parts.get(id)
    // What it thinks comes the same way, in parts of another kind.
    if (passed === undefined) return []
    this.#parts.set(id, passed + text.length)
    return this.#text(messageID, text)
  }

  #text(messageID: unknown, text: string): EventBody[] {
    const message = textIn(messageID) ?? ""
    const state = this.#messages.get(message)
    if (text === "" || state === undefined || state === "completed") return []
    this.#messages.set(message, "spoken")
    return [{ type: "message.delta", prompt: this.#prompt, message, text }]
  }

  #call(part: Json): EventBody[] {
    const { status } = objectIn(part.state)
    const call = clip(textIn(part.callID) ?? "", MAX_NAME_CHARS)
    const tool = clip(textIn(part.tool) ?? "", MAX_NAME_CHARS)
    const prompt = this.#prompt
    const isEnd = status === "completed" || status === "error"
    if (this.#phase === "before" || !(isEnd || status === "running")) return []
    const before = this.#calls.get(call)
    if (before === "completed" || !keep(this.#calls, call, isEnd ? "completed" : "open")) return []
    return [
      ...(before === undefined ? [{ type: "tool.started", prompt, call, tool } as const] : []),
      ...(isEnd
        ? [{ type: "tool.completed", prompt, call, failed: status === "error" } as const]
        : []),
    ]
  }

  /** The summary that it writes for itself when a conversation gets too long is no message to the user. */
  #message(info: Json): EventBody[] {
    if (info.role !== "assistant" || info.summary === true || this.#phase === "before") return []
    const message = textIn(info.id) ?? ""
    const state = this.#messages.get(message)
    const isEnd = typeof objectIn(info.time).completed === "number"
    if (state === undefined) {
      if (!isEnd && keep(this.#messages, message, "open")) this.#error = undefined
      return []
    }
    if (!isEnd || state === "completed") return []
    this.#messages.set(message, "completed")
    return state === "spoken" ? [{ type: "message.completed", prompt: this.#prompt, message }] : []
  }

  #status({ type, message, attempt }: Json): EventBody[] {
    if (this.#phase === "before") return []
    if (type === "busy" || type === "retry") this.#phase = "busy"
    if (type === "idle" && this.#phase === "busy") this.#phase = "idle"
    if (type !== "retry") return []
    const words = clip(textIn(message) ?? "", MAX_WORDS)
    return [{ type: "warning", message: `OpenCode tries again (${Number(attempt)}): ${words}` }]
  }

  #failure(error: unknown): EventBody[] {
    if (objectIn(error).name === "MessageAbortedError") {
      this.#isAborted = true
      return []
    }
    const isFirst = this.#error === undefined
    this.#error ??= clip(wordsOf(error) ?? "OpenCode failed and did not say why", MAX_WORDS)
    if (!isFirst || this.#phase === "before") return []
    return [errorEvent(new BerthError("agent.failed", this.#error))]
  }

  #noticeChild(type: unknown, { id, parentID }: Json): void {
    if (type !== "session.created" || this.#sessions.size >= MAX_KEPT) return
    if (typeof id === "string" && this.#sessions.has(textIn(parentID) ?? "")) this.#sessions.add(id)
  }

  #hasOpen(states: ReadonlyMap<string, string>): boolean {
    return [...states.values()].some((state) => state !== "completed")
  }
}

export const errorEvent = ({ code, message, hint }: BerthError): EventBody => ({
  ...{ type: "error", code, hint },
  message: clip(message, MAX_WORDS),
})

const askIn = (type: unknown, said: Json): Ask[] => {
  const id = textIn(said.id) ?? ""
  if (type === "question.asked") return [{ kind: "question", id, about: "a question" }]
  if (type !== "permission.asked") return []
  return [{ kind: "permission", id, about: clip(String(said.permission), MAX_NAME_CHARS) }]
}

/** False: there is no room for a new one. */
const keep = <Value>(map: Map<string, Value>, key: string, value: Value): boolean => {
  if (!map.has(key) && map.size >= MAX_KEPT) return false
  map.set(key, value)
  return true
}

const clip = (text: string, chars: number): string => text.slice(0, chars)
