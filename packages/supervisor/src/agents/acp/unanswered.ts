import { type Json, objectIn } from "../read.ts"

/** Requests of an agent that are not answered yet. Those beyond are refused at once: they would all be held in memory. */
export const MAX_UNANSWERED = 128

/** Counts what an agent asks for and has no answer to. */
export class Unanswered {
  #count = 0

  /** The answer to a message that is not passed on; "drop" if it gets none. */
  take(message: Json): object | "pass" | "drop" {
    const { id, method } = message
    if (method === undefined || id === undefined) return "pass"
    if (typeof id !== "string" && typeof id !== "number") return "drop"
    if (this.#count >= MAX_UNANSWERED) return refusalOf(id)
    this.#count++
    return "pass"
  }

  /** To be called with each message to the agent. */
  said(message: unknown): void {
    const { id, method } = objectIn(message)
    if (id !== undefined && method === undefined) this.#count = Math.max(0, this.#count - 1)
  }
}

const refusalOf = (id: string | number): object => ({
  jsonrpc: "2.0",
  id,
  error: { code: -32_000, message: `more than ${MAX_UNANSWERED} requests wait for an answer` },
})
