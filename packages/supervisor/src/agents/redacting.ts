import type { EventBody } from "@berth/protocol/event"
import type { Say } from "./agent.ts"
import type { Redaction } from "./redaction.ts"

type Delta = Extract<EventBody, { type: "message.delta" }>

/**
 * Passes on events without the keys. The end of a text that may be the beginning of a key is held back until more text
 * comes, or until a tool call, the end of the message or the end of the prompt shows that none will.
 */
export class Redacting {
  readonly #redaction: Redaction
  readonly #say: Say
  readonly #held = new Map<string, Delta>()

  constructor(redaction: Redaction, say: Say) {
    this.#redaction = redaction
    this.#say = say
  }

  readonly say: Say = async (body) => {
    if (body.type === "message.delta") return this.#delta(body)
    if (body.type === "message.completed") await this.#release(body.message)
    if (body.type === "tool.started") await this.end()
    await this.#say(this.#redaction.within(body))
  }

  async end(): Promise<void> {
    for (const message of [...this.#held.keys()]) await this.#release(message)
  }

  async #delta(body: Delta): Promise<void> {
    const before = this.#held.get(body.message)?.text ?? ""
    const { ready, held } = this.#redaction.split(before + body.text)
    if (held === "") this.#held.delete(body.message)
    else this.#held.set(body.message, { ...body, text: held })
    if (ready !== "") await this.#say({ ...body, text: ready })
  }

  async #release(message: string): Promise<void> {
    const held = this.#held.get(message)
    if (held === undefined) return
    this.#held.delete(message)
    await this.#say(this.#redaction.within(held))
  }
}
