import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { type Json, objectIn } from "../read.ts"

interface Spent {
  readonly input: number
  readonly output: number
  readonly costUsd: number
}

/** What the model's messages of one prompt have cost together. */
export class Usage {
  readonly #prompt: PromptId
  readonly #messages = new Map<string, Spent>()
  #told = ""

  constructor(prompt: PromptId) {
    this.#prompt = prompt
  }

  /** From what OpenCode says of a message, which counts what it has cost so far. */
  hear(message: string, info: Json): EventBody[] {
    const tokens = objectIn(info.tokens)
    const cache = objectIn(tokens.cache)
    const spent = {
      input: count(tokens.input) + count(cache.read) + count(cache.write),
      output: count(tokens.output) + count(tokens.reasoning),
      costUsd: amount(info.cost),
    }
    if (spent.input + spent.output === 0) return []
    this.#messages.set(message, spent)
    const all = [...this.#messages.values()]
    const sum = (of: (spent: Spent) => number) => all.reduce((total, each) => total + of(each), 0)
    const totals = {
      inputTokens: sum(({ input }) => input),
      outputTokens: sum(({ output }) => output),
      costUsd: sum(({ costUsd }) => costUsd),
    }
    const telling = JSON.stringify(totals)
    if (telling === this.#told) return []
    this.#told = telling
    return [{ type: "usage", prompt: this.#prompt, ...totals }]
  }
}

const amount = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0

const count = (value: unknown): number => Math.floor(amount(value))
