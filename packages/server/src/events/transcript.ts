import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { MessagePart } from "@berth/protocol/sessions"

type Part = { -readonly [Key in keyof MessagePart]: MessagePart[Key] } & MessagePart

/** Puts a log together: what each prompt brought, as messages, calls and notes, in their order. */
export class TranscriptFold {
  readonly #turns = new Map<PromptId, Part[]>()
  readonly #open = new Map<string, Part>()
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
    const part = this.#open.get(`${prompt} message ${message}`)
    if (part?.kind === "text") part.text += text
    else
      this.#begin(prompt, `message ${message}`, { kind: "text", message, text, isComplete: false })
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
