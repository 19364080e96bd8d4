import type { EventBody } from "@berth/protocol/event"
import type { MessagePart } from "@berth/protocol/sessions"
import { lineOf, shortened } from "./event-line.ts"
import { printable } from "./terminal.ts"

/** The outputs for a conversation. */
export interface Pages {
  /** Takes the agent's text, as it comes. */
  text(text: string): void
  /** Takes everything else, in whole lines. */
  line(text: string): void
}

/** Shows the events of a session, as text for a person. */
export class Screen {
  readonly #pages: Pages
  readonly #tools = new Map<string, string>()
  #isMidLine = false

  constructor(pages: Pages) {
    this.#pages = pages
  }

  show(body: EventBody): void {
    if (body.type === "message.delta") this.#text(body.text)
    if (body.type === "message.completed") this.#endLine()
    if (body.type === "tool.started") this.#tools.set(body.call, body.tool)
    const line = lineOf(body, (call) => this.#tools.get(call) ?? "a tool")
    if (line !== undefined) this.line(line)
  }

  /** Shows a piece of the earlier conversation. */
  showPart(part: MessagePart): void {
    if (part.kind === "note") this.line(`${part.level}: ${part.text}`)
    if (part.kind === "text") {
      this.#text(part.text)
      if (part.isComplete) this.#endLine()
    }
    if (part.kind === "tool") {
      this.#tools.set(part.call, part.tool)
      this.line(`→ ${part.tool} ${shortened(part.input)}`)
      if (part.state === "failed") this.line(`✗ ${part.tool} ${shortened(part.output)}`)
    }
  }

  /** Shows a person's prompt. */
  showPrompt(text: string): void {
    this.line(text.replaceAll(/^/gm, "> "))
  }

  line(text: string): void {
    this.#endLine()
    this.#pages.line(printable(`${text.trimEnd()}\n`))
  }

  #text(text: string): void {
    if (text === "") return
    this.#pages.text(text)
    this.#isMidLine = !text.endsWith("\n")
  }

  #endLine(): void {
    if (this.#isMidLine) this.#text("\n")
  }
}
