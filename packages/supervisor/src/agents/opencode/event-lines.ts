import { parseModest } from "../modest-json.ts"
import { GatheredBytes } from "./gathered-bytes.ts"

/** One event. A tool's whole output is in one, and a written file's text; what is larger is left out. */
export const MAX_LINE_BYTES = 8 * 1024 * 1024

const DATA = "data:"
const NEWLINE = 0x0a

/** Cuts a stream of server-sent events into what they carry. What is no JSON is left out. */
export class EventLines {
  readonly #line = new GatheredBytes()
  #isTooLong = false

  /** The events that this piece completes. OpenCode writes each as one line of data. */
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
