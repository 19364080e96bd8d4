import { createInterface } from "node:readline/promises"
import type { EventBody } from "@berth/protocol/event"
import type { AskAnswer } from "@berth/protocol/session"
import { answerCommand, kindOf } from "./say-ask.ts"

type Asked = Extract<EventBody, { type: "permission.asked" | "question.asked" }>

export interface Answering {
  /** Shows a whole line. */
  readonly line: (text: string) => void
  readonly answer: (answer: AskAnswer) => Promise<void>
  /** The session's id, by which asks are answered from elsewhere. */
  readonly session: string
  /** Whether a person can be asked here. */
  readonly isAttended: boolean
}

/** Lets the person at the terminal answer an agent's asks, one after another, unless somebody else is faster. */
export class AskAnswers {
  readonly #with: Answering
  readonly #open = new Map<string, AbortController>()
  #last: Promise<void> = Promise.resolve()

  constructor(answering: Answering) {
    this.#with = answering
  }

  take(body: EventBody): void {
    if (body.type === "permission.answered" || body.type === "question.answered") {
      this.#open.get(body.ask)?.abort()
      this.#open.delete(body.ask)
    }
    if (body.type === "permission.asked" || body.type === "question.asked") this.#ask(body)
  }

  /** Stops asking. */
  close(): void {
    for (const asked of this.#open.values()) asked.abort()
    this.#open.clear()
  }

  #ask(asked: Asked): void {
    const { line, isAttended, session } = this.#with
    if (!isAttended) {
      const { ask } = asked
      line(`? the agent waits for: ${answerCommand(session, { kind: kindOf(asked), ask })}`)
      return
    }
    const withdrawn = new AbortController()
    this.#open.set(asked.ask, withdrawn)
    this.#last = this.#last
      .then(() => this.#put(asked, withdrawn.signal))
      .catch((thrown: unknown) => {
        if (!withdrawn.signal.aborted) line(`? not answered: ${String(thrown)}`)
      })
  }

  async #put(asked: Asked, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    // Not as a terminal, which would take ctrl-c for itself.
    const lines = createInterface({
      input: process.stdin,
      output: process.stderr,
      terminal: false,
    })
    try {
      const said = (await lines.question(promptOf(asked), { signal })).trim()
      await this.#with.answer(answerOf(asked, said))
    } finally {
      lines.close()
    }
  }
}

const promptOf = ({ type }: Asked): string =>
  type === "permission.asked" ? "? allow? [y/N] " : "? answer (nothing declines): "

/** The answer in the words that were typed. A choice can be named by its number. */
const answerOf = (asked: Asked, said: string): AskAnswer => {
  const { ask } = asked
  if (asked.type === "permission.asked")
    return { kind: "permission", ask, allow: /^y(es)?$/i.test(said) }
  const choice = /^\d+$/.test(said) ? asked.choices[Number(said) - 1] : undefined
  return { kind: "question", ask, answer: said === "" ? null : (choice ?? said) }
}
