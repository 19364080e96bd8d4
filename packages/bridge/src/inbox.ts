import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import { BATCH_EVENTS, MAX_PENDING_BYTES } from "./limits.ts"

export interface InboxOptions {
  readonly lastSeen: number
  /** Resolves when the events are safe: only then are they acknowledged. */
  readonly store: (events: readonly Event[]) => Promise<void>
  readonly onStored: (upTo: number) => void
  /** Called when as much waits as may wait, and when that is over. */
  readonly onFull: (isFull: boolean) => void
  readonly onFailed: (error: BerthError) => void
}

/** The events of one connection: checked as they come, stored in order, one batch after another. */
export class Inbox {
  readonly #options: InboxOptions
  #next: number
  #waiting: { events: readonly Event[]; bytes: number }[] = []
  #pendingBytes = 0
  #isFull = false
  #storing: Promise<void> | undefined
  #closed = false

  constructor(options: InboxOptions) {
    this.#options = options
    this.#next = options.lastSeen + 1
  }

  /** Throws when the events are not exactly the next ones. */
  take(events: readonly Event[], bytes: number): void {
    if (this.#closed) return
    for (const event of events) this.#check(event)
    for (let place = 0; place < events.length; place += BATCH_EVENTS)
      this.#waiting.push({
        events: events.slice(place, place + BATCH_EVENTS),
        // The bytes count with the last batch, so that all of them count until everything is stored.
        bytes: place + BATCH_EVENTS < events.length ? 0 : bytes,
      })
    this.#count(bytes)
    this.#storing ??= this.#store()
  }

  /** Skips events that the sandbox no longer holds: one event that says so takes their place, under that number. */
  skipTo(sequence: number): void {
    const reason = `the events ${this.#next} to ${sequence} of the sandbox are not held any more`
    this.#next = sequence
    this.take([{ sequence, at: new Date().toISOString(), body: { type: "gap", reason } }], 0)
  }

  /**
   * Forgets events that are not being stored yet: the sandbox still has them. Resolves when nothing is being stored.
   */
  async close(): Promise<void> {
    this.#closed = true
    this.#waiting = []
    await this.#storing
  }

  #check({ sequence }: Event): void {
    if (sequence !== this.#next) {
      throw new BerthError("bridge.wrong_number", "the sandbox sent another event than the next", {
        details: { expected: this.#next, received: sequence },
      })
    }
    this.#next++
  }

  async #store(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batches = this.#waiting.splice(0, this.#batchEnd())
        const events = batches.flatMap((batch) => batch.events)
        await this.#options.store(events)
        const upTo = events.at(-1)?.sequence
        if (upTo !== undefined) this.#options.onStored(upTo)
        this.#count(-batches.reduce((sum, { bytes }) => sum + bytes, 0))
      }
    } catch (cause) {
      // After a failure, no later events may be stored.
      this.#closed = true
      const message = "the events of the sandbox could not be stored"
      this.#options.onFailed(new BerthError("bridge.store_failed", message, { cause }))
    } finally {
      // Set in the same turn as the last check for waiting events, so that none is left behind.
      this.#storing = undefined
    }
  }

  /** The number of waiting batches that are stored next: those with so many events together, at least one. */
  #batchEnd(): number {
    let events = 0
    const last = this.#waiting.findIndex((batch) => {
      events += batch.events.length
      return events >= BATCH_EVENTS
    })
    return last === -1 ? this.#waiting.length : last + 1
  }

  #count(bytes: number): void {
    this.#pendingBytes += bytes
    const isFull = this.#pendingBytes > MAX_PENDING_BYTES
    if (isFull === this.#isFull || this.#closed) return
    this.#isFull = isFull
    this.#options.onFull(isFull)
  }
}
