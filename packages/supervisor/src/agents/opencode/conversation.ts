import { BerthError } from "@berth/protocol/errors"
import type { EventBody, Todo } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { clip, nameIn, toolText } from "../clip.ts"
import { errorEvent } from "../failure.ts"
import { type Json, listIn, objectIn, textIn } from "../read.ts"
import { fittingTodos } from "../todos.ts"
import { type AgentAsk, type AgentAskAnswer, askAnswersIn, asksIn } from "./ask-events.ts"
import { Edits } from "./edits.ts"
import { Usage } from "./usage.ts"
import { wordsOf } from "./words.ts"

/** The metadata key by which Berth finds its prompts and sessions among OpenCode's messages and conversations. */
export const MARK = "berth"

/**
 * Bound on the messages, parts and calls remembered for one prompt. No agent comes near it; it keeps memory from
 * filling.
 */
const MAX_KEPT = 20_000
const MAX_WORDS = 4_000
const MAX_PATH_CHARS = 4096

/**
 * When a prompt fails because of its provider: at this try, or before a wait longer than the limit. OpenCode would
 * retry forever.
 */
export const LAST_TRY = 3
export const LONGEST_WAIT_MS = 60_000

export interface Heard {
  readonly bodies: readonly EventBody[]
  readonly asked: readonly AgentAsk[]
  readonly settled: readonly AgentAskAnswer[]
}

/**
 * Turns OpenCode's events during one prompt into Berth's events.
 *
 * A prompt begins with the part that carries our mark; earlier parts belong to an earlier prompt. OpenCode then becomes
 * busy, and later idle. For a prompt that fails or is stopped it reports idle twice, and the ends of messages and calls
 * come in between. So the prompt is over when OpenCode is idle and no message or call is open.
 */
export class Conversation {
  readonly #prompt: PromptId
  readonly #session: string
  readonly #explain: (words: string) => string
  /** Our conversation, and those that its subagents opened. */
  readonly #sessions: Set<string>
  readonly #messages = new Map<string, "open" | "spoken" | "completed">()
  /** Messages whose last part was reported. */
  readonly #finished = new Set<string>()
  /** The message that carries our mark. Messages that answer it have it as their parent. */
  #question: string | undefined
  /** Parts that are text, with the number of characters passed on. */
  readonly #parts = new Map<string, number>()
  readonly #calls = new Map<string, "open" | "completed">()
  readonly #usage: Usage
  readonly #edits: Edits
  #phase: "before" | "begun" | "busy" | "idle" = "before"
  #error: string | undefined
  #isAborted = false
  #isHopeless = false

  /** `explain` turns OpenCode's error text into one that says what failed. */
  constructor(
    prompt: PromptId,
    session: string,
    directory: string,
    explain = (words: string) => words,
  ) {
    this.#explain = explain
    this.#usage = new Usage(prompt)
    this.#edits = new Edits(directory)
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

  /** Whether OpenCode is idle, and no message or call of the prompt is open. */
  get isOver(): boolean {
    return this.isIdle && !this.#hasOpen(this.#messages) && !this.#hasOpen(this.#calls)
  }

  /** The prompt's error, in OpenCode's own words or as `explain` put them. */
  get error(): string | undefined {
    return this.#error
  }

  /** Whether the conversation was aborted, by anyone. */
  get isAborted(): boolean {
    return this.#isAborted
  }

  /** Whether OpenCode would retry although there is no use in it. */
  get isHopeless(): boolean {
    return this.#isHopeless
  }

  hear(event: unknown): Heard {
    const { type, properties } = objectIn(event)
    const said = objectIn(properties)
    const session = textIn(said.sessionID) ?? ""
    this.#noticeChild(type, objectIn(said.info))
    const isOurs = this.#sessions.has(session)
    const own = session === this.#session ? this.#bodiesOf(type, said) : []
    return {
      bodies: [...(isOurs ? this.#spending(type, said) : []), ...this.#edit(type, said), ...own],
      asked: isOurs ? asksIn(type, said) : [],
      settled: isOurs ? askAnswersIn(type, said) : [],
    }
  }

  /** Returns the end events of calls and messages that never ended. */
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
      case "todo.updated":
        return this.#todos(listIn(said.todos))
      case "session.status":
        return this.#status(objectIn(said.status))
      case "session.error":
        return this.#failure(said.error)
      default:
        return []
    }
  }

  #part(part: Json): EventBody[] {
    if (objectIn(part.metadata)[MARK] === this.#prompt && this.#phase === "before") {
      this.#phase = "begun"
      this.#question = nameIn(part.messageID)
    }
    if (part.type === "tool") return this.#call(part)
    if (part.type === "step-finish" && this.#finished.size < MAX_KEPT)
      this.#finished.add(nameIn(part.messageID))
    if (part.type !== "text" || part.synthetic === true) return []
    const [id, text] = [nameIn(part.id), textIn(part.text) ?? ""]
    const passed = this.#parts.get(id) ?? 0
    keep(this.#parts, id, Math.max(passed, text.length))
    return this.#text(part.messageID, text.slice(passed))
  }

  #delta({ partID, messageID, delta }: Json): EventBody[] {
    const [id, text] = [nameIn(partID), textIn(delta) ?? ""]
    const passed = this.#parts.get(id)
    // Reasoning arrives as deltas too, of parts that are not text.
    if (passed === undefined) return []
    this.#parts.set(id, passed + text.length)
    return this.#text(messageID, text)
  }

  #text(messageID: unknown, text: string): EventBody[] {
    const message = nameIn(messageID)
    const state = this.#messages.get(message)
    if (text === "" || state === undefined || state === "completed") return []
    this.#messages.set(message, "spoken")
    return [{ type: "message.delta", prompt: this.#prompt, message, text }]
  }

  #call(part: Json): EventBody[] {
    const { status, input, output, error } = objectIn(part.state)
    const call = nameIn(part.callID)
    const tool = nameIn(part.tool)
    const prompt = this.#prompt
    const isEnd = status === "completed" || status === "error"
    if (this.#phase === "before" || !(isEnd || status === "running")) return []
    const before = this.#calls.get(call)
    if (before === "completed" || !keep(this.#calls, call, isEnd ? "completed" : "open")) return []
    const [given, gave] = [toolText(input), toolText(output ?? error)]
    const started = {
      ...({ type: "tool.started", prompt, call, tool } as const),
      ...(given !== undefined && { input: given }),
    }
    const completed = {
      ...({ type: "tool.completed", prompt, call, failed: status === "error" } as const),
      ...(gave !== undefined && { output: gave }),
    }
    return [...(before === undefined ? [started] : []), ...(isEnd ? [completed] : [])]
  }

  /**
   * Handles an update of a message. The summary that OpenCode writes for itself when a conversation gets too long is no
   * message to the user. OpenCode sends a message's state as it is at sending time: on a busy machine, the update of
   * its beginning already says completed. So a message has ended when it says so, and its last part was reported or it
   * has failed.
   */
  #message(info: Json): EventBody[] {
    if (info.role !== "assistant" || info.summary === true || this.#phase === "before") return []
    const message = nameIn(info.id)
    const state = this.#messages.get(message)
    const isEnd = typeof objectIn(info.time).completed === "number"
    if (state === undefined) {
      const isOurs = !isEnd || (info.parentID !== undefined && info.parentID === this.#question)
      if (isOurs && keep(this.#messages, message, "open") && !isEnd) this.#error = undefined
      return []
    }
    const isWhole = this.#finished.has(message) || info.error !== undefined
    if (!isEnd || !isWhole || state === "completed") return []
    this.#messages.set(message, "completed")
    return state === "spoken" ? [{ type: "message.completed", prompt: this.#prompt, message }] : []
  }

  #todos(todos: readonly unknown[]): EventBody[] {
    if (this.#phase === "before") return []
    const all = todos.map((todo) => todoIn(objectIn(todo)))
    return [{ type: "todo.updated", prompt: this.#prompt, todos: fittingTodos(all) }]
  }

  /** Counts the usage of the conversation's own messages and of its subagents' messages. */
  #spending(type: unknown, said: Json): EventBody[] {
    const info = objectIn(said.info)
    if (type === "message.part.updated") this.#noticeCall(objectIn(said.part))
    if (type !== "message.updated" || info.role !== "assistant" || this.#phase === "before")
      return []
    return this.#usage.hear(nameIn(info.id), info)
  }

  #noticeCall({ type, callID, state }: Json): void {
    if (type !== "tool") return
    const { status, input } = objectIn(state)
    const call = nameIn(callID)
    if (status === "running") this.#edits.begin(call, input)
    if (status === "completed" || status === "error") this.#edits.end(call)
  }

  #edit(type: unknown, { file }: Json): EventBody[] {
    const path = textIn(file) ?? ""
    if (type !== "file.edited" || path.length > MAX_PATH_CHARS || !this.#edits.areOf(path))
      return []
    return [{ type: "file.changed", prompt: this.#prompt, path }]
  }

  #status({ type, message, attempt, next }: Json): EventBody[] {
    if (this.#phase === "before") return []
    if (type === "busy" || type === "retry") this.#phase = "busy"
    if (type === "idle" && this.#phase === "busy") this.#phase = "idle"
    if (type !== "retry") return []
    const words = clip(textIn(message) ?? "", MAX_WORDS)
    const waitMs = typeof next === "number" ? next - Date.now() : 0
    const tries = typeof attempt === "number" ? attempt : 0
    this.#isHopeless = tries >= LAST_TRY || waitMs > LONGEST_WAIT_MS
    if (this.#isHopeless) return this.#failure({ message: words })
    const warning = `OpenCode tries again (${tries}): ${words}`
    return [{ type: "warning", prompt: this.#prompt, message: warning }]
  }

  #failure(error: unknown): EventBody[] {
    if (objectIn(error).name === "MessageAbortedError") {
      this.#isAborted = true
      return []
    }
    const isFirst = this.#error === undefined
    const words = wordsOf(error) ?? "OpenCode failed and did not say why"
    this.#error ??= clip(this.#explain(words), MAX_WORDS)
    if (!isFirst || this.#phase === "before") return []
    return [errorEvent(this.#prompt, new BerthError("agent.failed", this.#error))]
  }

  #noticeChild(type: unknown, { id, parentID }: Json): void {
    if (type !== "session.created" || this.#sessions.size >= MAX_KEPT) return
    if (this.#sessions.has(textIn(parentID) ?? "")) this.#sessions.add(nameIn(id))
  }

  #hasOpen(states: ReadonlyMap<string, string>): boolean {
    return [...states.values()].some((state) => state !== "completed")
  }
}

const TODO_STATES: Readonly<Record<string, Todo["state"]>> = {
  in_progress: "active",
  completed: "done",
  cancelled: "cancelled",
}

const todoIn = ({ content, status }: Json): Todo => ({
  text: textIn(content) ?? "",
  state: TODO_STATES[textIn(status) ?? ""] ?? "pending",
})

/** Sets an entry. Returns false if the map has no room for a new one. */
const keep = <Value>(map: Map<string, Value>, key: string, value: Value): boolean => {
  if (!map.has(key) && map.size >= MAX_KEPT) return false
  map.set(key, value)
  return true
}
