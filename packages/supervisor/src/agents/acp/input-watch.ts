import type { Writable } from "node:stream"
import { type Clock, pause } from "../../processes/clock.ts"
import type { Conversation } from "../../processes/spec.ts"
import { objectIn } from "../read.ts"
import { EXITS_WITHIN_MS } from "./end-of-connection.ts"

/** Interval at which an agent's input is tried, as there is no event when the agent closes it. A try is one system call. */
export const INPUT_LOOK_MS = 500

export interface InputWatchParts extends Pick<Conversation, "stdin" | "exited"> {
  readonly clock: Clock
  /** Fires when the connection is over. */
  readonly over: AbortSignal
  /** Called when an agent that has not answered, and lives on, can no longer be spoken to. */
  readonly onClosed: () => void
}

/** Notices that an agent has closed its input while it owes an answer. */
export class InputWatch {
  readonly #parts: InputWatchParts
  /** The ids of the requests that the agent has not answered. */
  readonly #owed = new Set<unknown>()
  #isWatching = false

  constructor(parts: InputWatchParts) {
    this.#parts = parts
  }

  /** To be called with every message to the agent. */
  said(message: unknown): void {
    const { id, method } = objectIn(message)
    if (id === undefined || method === undefined) return
    this.#owed.add(id)
    if (!this.#isWatching) void this.#watch()
  }

  /** To be called with every message of the agent. */
  heard(message: unknown): void {
    const { id, method } = objectIn(message)
    if (method === undefined) this.#owed.delete(id)
  }

  async #watch(): Promise<void> {
    const { stdin, clock, over, exited, onClosed } = this.#parts
    this.#isWatching = true
    try {
      do {
        await pause(clock, INPUT_LOOK_MS, over)
        if (over.aborted || this.#owed.size === 0) return
      } while (await isOpen(stdin))
      // An agent that crashes has closed its input, too. Its last words are read before its connection is over.
      await Promise.race([exited, pause(clock, EXITS_WITHIN_MS, over)])
      if (!over.aborted && this.#owed.size > 0) onClosed()
    } finally {
      this.#isWatching = false
    }
  }
}

/** Writes nothing, which fails if nobody can read. While something is being written, that write will tell. */
const isOpen = (stdin: Writable): Promise<boolean> =>
  new Promise((resolve) => {
    if (stdin.writableLength > 0) return resolve(true)
    stdin.write("", (error) => resolve(!error))
  })
