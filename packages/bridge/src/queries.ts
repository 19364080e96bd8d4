import type { PromptStanding } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import { MAX_OUTSTANDING } from "./limits.ts"
import { words } from "./parse.ts"

interface Query {
  readonly resolve: (standing: PromptStanding) => void
  readonly reject: (error: BerthError) => void
  readonly deadline: NodeJS.Timeout
}

/** The unanswered queries of one connection. Queries about one prompt are answered in order. */
export class Queries {
  readonly #deadlineMs: number
  readonly #outstanding = new Map<PromptId, Query[]>()
  #count = 0

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs
  }

  add(prompt: PromptId): Promise<PromptStanding> {
    if (this.#count >= MAX_OUTSTANDING)
      throw new BerthError("bridge.congested", "the sandbox leaves too many queries unanswered")
    this.#count++
    const { promise, resolve, reject } = Promise.withResolvers<PromptStanding>()
    // An overdue query keeps its place, so that a late answer is not taken for the next one's.
    const deadline = setTimeout(() => reject(overdue(prompt, this.#deadlineMs)), this.#deadlineMs)
    const queries = this.#outstanding.get(prompt) ?? []
    queries.push({ resolve, reject, deadline })
    this.#outstanding.set(prompt, queries)
    return promise
  }

  answer(prompt: PromptId, standing: PromptStanding): void {
    this.#take(prompt).resolve(standing)
  }

  refuse(prompt: PromptId, code: string, reason: string): void {
    const isUnasked = code === "session.nothing_asked"
    this.#take(prompt).reject(
      new BerthError(isUnasked ? code : "bridge.refused", "the sandbox refused the prompt", {
        details: { prompt, sandboxSaid: words(reason), code: words(code) },
      }),
    )
  }

  /** The connection is over: rejects all queries. */
  endAll(error: BerthError): void {
    for (const queries of this.#outstanding.values()) {
      for (const { reject, deadline } of queries) {
        clearTimeout(deadline)
        reject(error)
      }
    }
    this.#outstanding.clear()
  }

  #take(prompt: PromptId): Query {
    const queries = this.#outstanding.get(prompt) ?? []
    const query = queries.shift()
    if (query === undefined) {
      throw new BerthError("bridge.protocol_violated", "the sandbox answered what was not asked", {
        details: { prompt },
      })
    }
    if (queries.length === 0) this.#outstanding.delete(prompt)
    clearTimeout(query.deadline)
    this.#count--
    return query
  }
}

const overdue = (prompt: PromptId, deadlineMs: number): BerthError =>
  new BerthError("bridge.timed_out", "the sandbox did not answer in time", {
    details: { prompt, deadlineMs },
  })
