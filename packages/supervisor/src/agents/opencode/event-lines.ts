import { StringDecoder } from "node:string_decoder"
import { parseModest } from "../modest-json.ts"

/** One event. A tool's whole output is in one, and a written file's text; what is larger is left out. */
export const MAX_EVENT_CHARS = 8 * 1024 * 1024

const DATA = "data:"

/** Cuts a stream of server-sent events into what they carry. What is no JSON is left out. */
export class EventLines {
  readonly #decoder = new StringDecoder("utf8")
  #line = ""
  #isTooLong = false

  /** The events that this piece completes. OpenCode writes each as one line of data. */
  of(chunk: Buffer): unknown[] {
    const [first = "", ...others] = this.#decoder.write(chunk).split("\n")
    const last = others.pop()
    this.#add(first)
    if (last === undefined) return []
    const lines = [this.#isTooLong ? "" : this.#line, ...others]
    this.#line = ""
    this.#isTooLong = false
    this.#add(last)
    return lines.flatMap(parse)
  }

  #add(text: string): void {
    if (this.#line.length + text.length > MAX_EVENT_CHARS) this.#isTooLong = true
    this.#line = this.#isTooLong ? "" : this.#line + text
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
