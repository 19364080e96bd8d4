import { setImmediate as soon } from "node:timers/promises"
import { Event, type EventBody } from "@berth/protocol/event"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import { sayCut } from "@berth/protocol/say-cut"
import type { MessagePart } from "@berth/protocol/sessions"
import type { EventLog } from "./log.ts"

/** The bound on the text of one message: more than people read, while a command's output has no end. */
export const MAX_TEXT_CHARS = 256 * 1024

type Part = { -readonly [Key in keyof MessagePart]: MessagePart[Key] } & MessagePart

/** Builds the transcript of a log up to that number. Others have their turn after each page. */
export const foldLog = async (
  log: Pick<EventLog, "read">,
  session: SessionId,
  lastEvent: number,
): Promise<TranscriptFold> => {
  const fold = new TranscriptFold()
  for (let seen = 0; seen < lastEvent; await soon()) {
    const page = (await log.read(session, seen)).filter(({ sequence }) => sequence <= lastEvent)
    for (const { json } of page) fold.add(Event.parse(JSON.parse(json)).body)
    seen = page.at(-1)?.sequence ?? lastEvent
  }
  return fold
}

/** Builds a transcript from events: the messages, calls and notes of each prompt, in their order. */
export class TranscriptFold {
  readonly #turns = new Map<PromptId, Part[]>()
  readonly #open = new Map<string, Part>()
  readonly #cut = new Set<string>()
  #last: PromptId | undefined

  add(body: EventBody): void {
    if ("prompt" in body && body.prompt !== undefined) this.#last = body.prompt
    switch (body.type) {
      case "message.delta":
        this.#text(body)
        break
      case "message.completed":
        this.#change(`${body.prompt} message ${body.message}`, { isComplete: true })
        break
      case "tool.started":
        this.#started(body)
        break
      case "tool.completed":
        this.#completed(body)
        break
      case "warning":
        this.#note("warning", body.message)
        break
      case "error":
        this.#note("error", `${body.message} (${body.code})`)
        break
      case "output.cut":
        this.#note("gap", sayCut(body))
        break
      case "gap":
        this.#note("gap", body.reason)
        break
      default:
    }
  }

  partsOf(prompt: PromptId): MessagePart[] {
    return this.#turns.get(prompt) ?? []
  }

  #text({ prompt, message, text }: Extract<EventBody, { type: "message.delta" }>): void {
    const key = `${prompt} message ${message}`
    const part = this.#open.get(key)
    const before = part?.kind === "text" ? part.text : ""
    const room = MAX_TEXT_CHARS - before.length
    if (part?.kind === "text") part.text += text.slice(0, room)
    else {
      const begun = { message, text: text.slice(0, room), isComplete: false }
      this.#begin(prompt, `message ${message}`, { kind: "text", ...begun })
    }
    if (text.length <= room || this.#cut.has(key)) return
    this.#cut.add(key)
    this.#note(
      "gap",
      `this message has more than ${MAX_TEXT_CHARS} characters: its events have all`,
    )
  }

  #started({ prompt, call, tool, input }: Extract<EventBody, { type: "tool.started" }>): void {
    const part = { kind: "tool", call, tool, state: "running" } as const
    this.#begin(prompt, `call ${call}`, { ...part, ...(input !== undefined && { input }) })
  }

  #completed({
    prompt,
    call,
    failed,
    output,
  }: Extract<EventBody, { type: "tool.completed" }>): void {
    const state = failed ? "failed" : "succeeded"
    this.#change(`${prompt} call ${call}`, { state, ...(output !== undefined && { output }) })
  }

  #note(level: "warning" | "error" | "gap", text: string): void {
    if (this.#last !== undefined) this.#partsOf(this.#last).push({ kind: "note", level, text })
  }

  #begin(prompt: PromptId, key: string, part: Part): void {
    this.#open.set(`${prompt} ${key}`, part)
    this.#partsOf(prompt).push(part)
  }

  #change(key: string, change: Partial<Part>): void {
    const part = this.#open.get(key)
    if (part !== undefined) Object.assign(part, change)
    this.#open.delete(key)
  }

  #partsOf(prompt: PromptId): Part[] {
    const parts = this.#turns.get(prompt) ?? []
    this.#turns.set(prompt, parts)
    return parts
  }
}
