import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { ByteRing } from "./ring.ts"

describe("ByteRing", () => {
  it("holds the end of the written text, whatever the pieces", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c", "\n"), maxLength: 30 })),
        (capacity, pieces) => {
          const ring = new ByteRing(capacity)
          for (const piece of pieces) ring.write(Buffer.from(piece))
          const all = pieces.join("")
          expect(ring.text()).toBe(all.slice(-capacity))
          expect(ring.writtenBytes).toBe(all.length)
          expect(ring.length).toBe(Math.min(capacity, all.length))
        },
      ),
    )
  })

  it("gives out the bytes that it holds from any place on, up to a limit", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.uint8Array({ maxLength: 30 })),
        fc.nat(20),
        fc.nat(20),
        (capacity, pieces, skip, maxBytes) => {
          const ring = new ByteRing(capacity)
          for (const piece of pieces) ring.write(Buffer.from(piece))
          const all = Buffer.concat(pieces)
          expect(ring.firstOffset).toBe(Math.max(0, all.length - capacity))
          const offset = Math.min(ring.firstOffset + skip, all.length)
          expect(ring.read(offset, maxBytes)).toEqual(all.subarray(offset, offset + maxBytes))
        },
      ),
    )
  })

  it("never shows half a character, wherever the stream was cut", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 4, max: 24 }),
        fc.string({ unit: fc.constantFrom("a", "é", "☃", "🚢"), maxLength: 40 }),
        (capacity, text) => {
          const ring = new ByteRing(capacity)
          for (const byte of Buffer.from(text)) ring.write(Buffer.from([byte]))
          expect(text.endsWith(ring.text())).toBe(true)
        },
      ),
    )
  })

  it("hands out a text piece by piece without breaking a character", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("a", "é", "☃", "🚢"), maxLength: 40 }),
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }),
        (text, sizes) => {
          const ring = new ByteRing(16)
          const bytes = Buffer.from(text)
          let taken = ""
          for (let at = 0, turn = 0; at < bytes.length; turn++) {
            const size = sizes[turn % sizes.length] as number
            ring.write(bytes.subarray(at, at + size))
            taken += ring.take()
            at += size
          }
          expect(taken).toBe(text)
          expect(ring.length).toBe(0)
        },
      ),
    )
  })
})
