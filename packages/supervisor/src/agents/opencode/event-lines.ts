import { parseModest } from "../modest-json.ts"
import { GatheredBytes } from "./gathered-bytes.ts"

/** Limit of one event. It may hold a tool's whole output or the text of a written file. Larger ones are skipped. */
export const MAX_LINE_BYTES = 8 * 1024 * 1024

const DATA = "data:"
const NEWLINE = 0x0a

/** Splits a stream of server-sent events, and parses the JSON of each. Data that is no JSON is skipped. */
export class EventLines {
  readonly #line = new GatheredBytes()
  #isTooLong = false

  /** Returns the events that this chunk completes. OpenCode writes each as one line of data. */
  of(chunk: Buffer): unknown[] {
    const events: unknown[] = []
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
      this.#add(chunk.subarray(from, at))
      const line = this.#line.take()
      if (!this.#isTooLong) events.push(...parse(line))
      this.#isTooLong = false
      from = at + 1
    }
    this.#add(chunk.subarray(from))
    return events
  }

  #add(piece: Buffer): void {
    if (this.#line.length + piece.length > MAX_LINE_BYTES) this.#isTooLong = true
    if (this.#isTooLong) this.#line.take()
    else this.#line.add(piece)
  }
}

const parse = (line: string): unknown[] => {
  if (!line.startsWith(DATA)) return []
  try {
    return [parseModest(line.slice(DATA.length))]
  } catch {
    return []
  }
}
