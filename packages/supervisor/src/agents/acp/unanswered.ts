import { type Json, objectIn } from "../read.ts"

/**
 * How many requests of an agent may be unanswered. Further ones are refused at once, since all would be held in memory.
 */
export const MAX_UNANSWERED = 128

/** Counts an agent's requests that have no answer yet. */
export class Unanswered {
  #count = 0

  /** Counts a request. Returns "pass", the refusal to send, or "drop" for a request whose id is invalid. */
  take(message: Json): object | "pass" | "drop" {
    const { id, method } = message
    if (method === undefined || id === undefined) return "pass"
    if (typeof id !== "string" && typeof id !== "number") return "drop"
    if (this.#count >= MAX_UNANSWERED) return refusalOf(id)
    this.#count++
    return "pass"
  }

  /** Counts an answer. To be called with every message to the agent. */
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
