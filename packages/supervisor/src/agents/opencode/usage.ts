import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { type Json, objectIn } from "../read.ts"

/** Limit of the messages of one prompt that are counted. */
const MAX_MESSAGES = 20_000
/** Upper bound of one amount. No prompt costs as much, and sums of it stay exact. */
const MAX_AMOUNT = 1e9

interface Spent {
  readonly input: number
  readonly output: number
  readonly costUsd: number
}

/** Adds up the tokens and cost of one prompt's messages. */
export class Usage {
  readonly #prompt: PromptId
  readonly #messages = new Map<string, Spent>()
  #total: Spent = { input: 0, output: 0, costUsd: 0 }
  #told = ""

  constructor(prompt: PromptId) {
    this.#prompt = prompt
  }

  /**
   * Takes OpenCode's update of a message, which has the message's cost so far. Returns an event if the totals changed.
   */
  hear(message: string, info: Json): EventBody[] {
    const tokens = objectIn(info.tokens)
    const cache = objectIn(tokens.cache)
    const spent = {
      input: count(tokens.input) + count(cache.read) + count(cache.write),
      output: count(tokens.output) + count(tokens.reasoning),
      costUsd: amount(info.cost),
    }
    if (spent.input + spent.output === 0) return []
    const before = this.#messages.get(message)
    if (before === undefined && this.#messages.size >= MAX_MESSAGES) return []
    this.#messages.set(message, spent)
    const { input, output, costUsd } = this.#total
    this.#total = {
      input: input + spent.input - (before?.input ?? 0),
      output: output + spent.output - (before?.output ?? 0),
      costUsd: Math.max(0, costUsd + spent.costUsd - (before?.costUsd ?? 0)),
    }
    const totals = {
      inputTokens: this.#total.input,
      outputTokens: this.#total.output,
      costUsd: this.#total.costUsd,
    }
    const telling = JSON.stringify(totals)
    if (telling === this.#told) return []
    this.#told = telling
    return [{ type: "usage", prompt: this.#prompt, ...totals }]
  }
}

const amount = (value: unknown): number =>
  typeof value === "number" && value > 0 ? Math.min(value, MAX_AMOUNT) : 0

const count = (value: unknown): number => Math.floor(amount(value))
