import type { Readiness } from "./readiness.ts"

/** Limit of the part of a line that is looked at, for programs that write no line end. */
const MAX_LINE_BYTES = 16 * 1024
const NEWLINE = 0x0a

/** Ready when the process writes a line that matches. The line need not have ended. */
export const readyOnLine = (pattern: RegExp): Readiness => ({
  description: `it wrote no line like ${pattern}`,
  wait: (target, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const lines = new Lines()
      const end = (settle: () => void) => {
        stopListening()
        signal.removeEventListener("abort", cancel)
        settle()
      }
      const cancel = () => end(() => reject(signal.reason))
      const stopListening = target.listen((chunk) => {
        if (lines.of(chunk).some((line) => pattern.test(line))) end(resolve)
      })
      signal.addEventListener("abort", cancel, { once: true })
    }),
})

/** Splits a stream into lines. */
class Lines {
  #begun: Buffer = Buffer.alloc(0)

  /** Returns the lines that this chunk completes, and last the one that it leaves open. */
  of(chunk: Buffer): string[] {
    const lines: string[] = []
    let from = 0
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      lines.push(this.#joined(chunk.subarray(from, at)).toString("utf8"))
      this.#begun = Buffer.alloc(0)
      from = at + 1
    }
    this.#begun = this.#joined(chunk.subarray(from))
    return [...lines, this.#begun.toString("utf8")]
  }

  #joined(rest: Buffer): Buffer {
    const room = Math.max(0, MAX_LINE_BYTES - this.#begun.length)
    return Buffer.concat([this.#begun, rest.subarray(0, room)])
  }
}
