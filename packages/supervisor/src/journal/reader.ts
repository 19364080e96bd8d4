import { type FileHandle, open } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { toJournalError } from "./fault.ts"
import { RecordWindow } from "./record-window.ts"
import type { Segment } from "./segment.ts"

/** The parts of the journal that a reader needs. */
export interface Readable {
  readonly first: number
  readonly last: number
  locate(sequence: number): Segment | undefined
  /** Resolves when there are events beyond that number. Rejects when the signal fires. */
  grownBeyond(sequence: number, signal: AbortSignal): Promise<void>
}

export interface EventBatch {
  readonly first: number
  /** The events as JSON, ready to be sent. */
  readonly events: readonly string[]
}

interface Position {
  readonly segment: Segment
  readonly handle: FileHandle
  readonly window: RecordWindow
  offset: number
}

/** Reads the journal in order, from disk, so that what is sent is what is kept. */
export class JournalReader {
  readonly #journal: Readable
  #next: number
  #position: Position | undefined

  constructor(journal: Readable, after: number) {
    this.#journal = journal
    this.#next = after + 1
  }

  /** Returns the next events: at least one, and no more than fit, except for a single larger one. */
  async next(maxBytes: number, signal: AbortSignal): Promise<EventBatch> {
    await this.#journal.grownBeyond(this.#next - 1, signal)
    const first = this.#next
    const events: string[] = []
    for (let bytes = 0; this.#next <= this.#journal.last; ) {
      const position = await this.#seek()
      const payload = await read(position)
      bytes += payload.length
      if (events.length > 0 && bytes > maxBytes) break
      position.offset = position.window.end
      events.push(withNumber(payload, this.#next++))
    }
    return { first, events }
  }

  async close(): Promise<void> {
    const position = this.#position
    this.#position = undefined
    await position?.handle.close()
  }

  /** Positions the reader at the next event. */
  async #seek(): Promise<Position> {
    const segment = this.#journal.locate(this.#next)
    if (segment === undefined) {
      throw new BerthError("journal.not_held", `event ${this.#next} is not held any more`, {
        details: { wanted: this.#next, first: this.#journal.first, last: this.#journal.last },
      })
    }
    if (this.#position?.segment !== segment) {
      await this.close()
      this.#position = await openAt(segment, this.#next)
    }
    this.#position.window.size = segment.bytes
    return this.#position
  }
}

const openAt = async (segment: Segment, sequence: number): Promise<Position> => {
  const handle = await open(segment.path, "r").catch((thrown: unknown) => {
    throw toJournalError(thrown, segment.path)
  })
  const window = new RecordWindow(handle, segment.bytes)
  const position = { segment, handle, window, offset: 0 }
  try {
    for (let skipped = segment.first; skipped < sequence; skipped++) {
      await read(position)
      position.offset = window.end
    }
    return position
  } catch (thrown) {
    await handle.close()
    throw thrown
  }
}

const read = async ({ segment, window, offset }: Position): Promise<Buffer> => {
  const payload = await window.recordAt(offset).catch((thrown: unknown) => {
    throw toJournalError(thrown, segment.path)
  })
  if (payload !== undefined) return payload
  throw new BerthError("journal.damaged", "what was written to the journal cannot be read back", {
    details: { path: segment.path, offset },
  })
}

/** Adds the number to an event, which is stored without it: `{"at":…,"body":…}`. */
const withNumber = (payload: Buffer, sequence: number): string =>
  `{"sequence":${sequence},${payload.toString("utf8", 1)}`
