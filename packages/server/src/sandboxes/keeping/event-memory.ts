import type { Event, EventBody } from "@berth/protocol/event"
import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxEvents } from "./connection.ts"

/** The events that are kept of one sandbox. Older ones are dropped here: the log of a session is kept elsewhere. */
const MAX_EVENTS = 10_000
const MAX_CHARS = 8 * 1024 * 1024

/** The last events of one sandbox, in memory. */
export class EventMemory {
  readonly #events: { readonly event: Event; readonly chars: number }[] = []
  readonly #waiting = new Set<{ readonly look: () => void; readonly fail: (why: Error) => void }>()
  #chars = 0
  #over: Error | undefined

  get events(): readonly Event[] {
    return this.#events.map(({ event }) => event)
  }

  add(events: readonly Event[]): void {
    for (const event of events) {
      const chars = JSON.stringify(event.body).length
      this.#events.push({ event, chars })
      this.#chars += chars
    }
    for (const { look } of this.#waiting) look()
    this.#forget()
  }

  /** Ends the stream: nothing more comes. */
  end(why: Error): void {
    this.#over = why
    for (const { fail } of this.#waiting) fail(why)
  }

  /** Resolves at the first event, past or to come, for which `holds` is true. Rejects when none can come any more. */
  async until(holds: (body: EventBody) => boolean): Promise<EventBody> {
    const { promise, resolve, reject } = Promise.withResolvers<EventBody>()
    let seen = 0
    const look = () => {
      for (const { event } of this.#events) {
        if (event.sequence <= seen) continue
        seen = event.sequence
        if (holds(event.body)) return resolve(event.body)
      }
    }
    const waiting = { look, fail: reject }
    this.#waiting.add(waiting)
    look()
    if (this.#over !== undefined) reject(this.#over)
    try {
      return await promise
    } finally {
      this.#waiting.delete(waiting)
    }
  }

  #forget(): void {
    let count = 0
    while (this.#events.length - count > MAX_EVENTS || this.#chars > MAX_CHARS)
      this.#chars -= this.#events[count++]?.chars ?? 0
    this.#events.splice(0, count)
  }
}

export interface RememberedEvents {
  /** Stores events as before, and remembers them. */
  readonly events: SandboxEvents
  memoryOf(sandbox: SandboxId): EventMemory
}

/**
 * Remembers events for callers that run sandboxes without a server and wait for what they say. A server keeps no events
 * in memory.
 */
export const rememberEvents = (stored: SandboxEvents): RememberedEvents => {
  const all = new Map<SandboxId, EventMemory>()
  const memoryOf = (sandbox: SandboxId): EventMemory => {
    const heard = all.get(sandbox) ?? new EventMemory()
    all.set(sandbox, heard)
    return heard
  }
  const take: SandboxEvents["take"] = async (sandbox, events) => {
    await stored.take(sandbox, events)
    memoryOf(sandbox).add(events)
  }
  return { events: { ...stored, take }, memoryOf }
}
