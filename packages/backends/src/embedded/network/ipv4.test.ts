import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { merge, overlaps, type Span, spanOf, toAddress, toNumber, toText } from "./ipv4.ts"

const address = fc.nat({ max: 2 ** 32 - 1 })
const span = fc
  .tuple(address, address)
  .map(([one, other]): Span => ({ first: Math.min(one, other), last: Math.max(one, other) }))

describe("IPv4 addresses", () => {
  it("are the same after a round trip through numbers", () => {
    fc.assert(fc.property(address, (value) => toNumber(toAddress(value)) === value))
  })

  it.each([
    ["0.0.0.0/0", "0.0.0.0-255.255.255.255"],
    ["10.0.0.0/8", "10.0.0.0-10.255.255.255"],
    ["198.18.4.2/31", "198.18.4.2-198.18.4.3"],
    ["203.0.113.9/32", "203.0.113.9"],
  ])("of the range %s are %s", (range, text) => {
    expect(toText(spanOf(range))).toBe(text)
  })
})

describe("merged spans", () => {
  const covers = (spans: readonly Span[], value: number) =>
    spans.some(({ first, last }) => first <= value && value <= last)

  it("hold the same addresses", () => {
    fc.assert(
      fc.property(fc.array(span), fc.array(address), (spans, others) => {
        const merged = merge(spans)
        const edges = spans.flatMap(({ first, last }) => [first - 1, first, last, last + 1])
        return [...edges, ...others].every((it) => covers(merged, it) === covers(spans, it))
      }),
    )
  })

  it("never overlap", () => {
    fc.assert(
      fc.property(fc.array(span), (spans) =>
        merge(spans).every((one, index, all) =>
          all.slice(index + 1).every((other) => !overlaps(one, other)),
        ),
      ),
    )
  })
})
