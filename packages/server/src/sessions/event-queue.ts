import { setImmediate as soon } from "node:timers/promises"
import type { Event } from "@berth/protocol/event"
import type { SandboxId } from "@berth/protocol/ids"
import type { Turns } from "../events/turns.ts"

/** Events of one sandbox. */
export interface Said {
  readonly sandbox: SandboxId
  readonly events: readonly Event[]
}

interface Waiting extends Said {
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** Events that are stored in one transaction, in which nothing else happens: some 20 ms. */
const MAX_GROUP_EVENTS = 512

/** The events that wait to be stored. Those that wait at the same time are stored together. */
export class EventQueue {
  readonly #turns: Pick<Turns, "take">
  readonly #store: (group: readonly Said[]) => Promise<void>
  #waiting: Waiting[] = []
  #isStoring = false

  /** `store` stores a group whole, or none of it. */
  constructor(turns: Pick<Turns, "take">, store: (group: readonly Said[]) => Promise<void>) {
    this.#turns = turns
    this.#store = store
  }

  /** Resolves when the events are stored. */
  put(said: Said): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...said, resolve, reject })
      if (!this.#isStoring) void this.#storeAll()
    })
  }

  async #storeAll(): Promise<void> {
    this.#isStoring = true
    while (this.#waiting.length > 0) {
      // Storing lets nothing else happen: events that have arrived from others meanwhile are read first, and stored
      // together.
      await soon()
      await this.#turns.take("store", () => this.#storeGroup())
    }
    // Set in the same turn as the last check for waiting events, so that none is left behind.
    this.#isStoring = false
  }

  async #storeGroup(): Promise<void> {
    const group = takeGroup(this.#waiting)
    this.#waiting = this.#waiting.slice(group.length)
    try {
      await this.#store(group)
      for (const { resolve } of group) resolve()
    } catch (thrown) {
      // Events of one sandbox that cannot be stored do not keep those of others from being stored.
      if (group.length === 1) group[0]?.reject(thrown)
      else for (const one of group) await this.#store([one]).then(one.resolve, one.reject)
    }
  }
}

/** The first senders that have so many events together, at least one. */
const takeGroup = (waiting: readonly Waiting[]): readonly Waiting[] => {
  let events = 0
  const end = waiting.findIndex((one) => {
    events += one.events.length
    return events >= MAX_GROUP_EVENTS
  })
  return end === -1 ? waiting : waiting.slice(0, end + 1)
}
