import fc from "fast-check"
import { expect, it } from "vitest"
import { OutputBuffer } from "./output-buffer.ts"

const all = (kept: OutputBuffer): string => {
  const pieces: string[] = []
  for (let at = kept.from; at < kept.to; ) {
    const piece = kept.read(at, 3)
    pieces.push(piece.toString("latin1"))
    at += piece.length
  }
  return pieces.join("")
}

it("kept output holds the last bytes, whatever is written and however its limit changes", () => {
  const step = fc.oneof(
    fc.record({ write: fc.string({ maxLength: 40, unit: "binary-ascii" }) }),
    fc.record({ limit: fc.integer({ min: 1, max: 30 }) }),
  )
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const kept = new OutputBuffer(20)
      let written = ""
      let limit = 20
      let from = 0
      for (const step of steps) {
        if ("write" in step) {
          kept.write(Buffer.from(step.write, "latin1"))
          written += step.write
        } else {
          limit = step.limit
          kept.limit(limit)
        }
        from = Math.max(from, written.length - limit)
        expect(kept.to).toBe(written.length)
        expect(kept.from).toBe(from)
        expect(all(kept)).toBe(written.slice(from))
      }
    }),
  )
})

it("kept output wakes a waiting reader at more output, when the reader gives up, and at the end", async () => {
  const kept = new OutputBuffer(20)
  const never = new AbortController()
  const more = kept.more(never.signal)
  kept.write(Buffer.from("x"))
  await more
  const gone = kept.more(never.signal)
  never.abort()
  await gone
  const end = kept.more(new AbortController().signal)
  kept.end()
  await end
  await kept.more(new AbortController().signal)
})
