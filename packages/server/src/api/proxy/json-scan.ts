import { BerthError } from "@berth/protocol/errors"

/** The most levels of objects and lists in an answer. Berth's deepest has six. */
export const MAX_DEPTH = 16

/** The most values in one answer: a listing of 10,000 files has less than a third of it. */
export const MAX_VALUES = 500_000

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c

/**
 * Scans JSON as it arrives, before anything is built from it: a value of two bytes takes fifty of memory, and as much
 * time as they do.
 */
export class JsonScan {
  #depth = 0
  #values = 1
  #inString = false
  #isEscaped = false

  /** Throws as soon as there is too much of it. */
  take(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (this.#isEscaped) this.#isEscaped = false
      else if (this.#inString) {
        if (byte === BACKSLASH) this.#isEscaped = true
        else if (byte === QUOTE) this.#inString = false
      } else if (byte === QUOTE) this.#inString = true
      // The opening and closing brackets of lists and objects.
      else if (byte === 0x5b || byte === 0x7b) {
        this.#values++
        if (++this.#depth > MAX_DEPTH) throw tooMuch("depth", MAX_DEPTH)
      } else if (byte === 0x5d || byte === 0x7d) this.#depth--
      else if (byte === COMMA && ++this.#values > MAX_VALUES) throw tooMuch("values", MAX_VALUES)
    }
  }
}

export const tooMuch = (limit: string, max: number): BerthError =>
  new BerthError("bridge.limit_exceeded", "the sandbox sent more than such an answer has", {
    details: { limit, max },
  })
