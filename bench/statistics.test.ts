import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { median, percentile } from "./statistics.ts"

const samples = fc.array(fc.double({ min: -1e9, max: 1e9, noNaN: true }), { minLength: 1 })

describe("median", () => {
  it("is the middle value, whatever the order", () => {
    expect(median([9, 1, 5])).toBe(5)
    expect(median([10, 2, 1])).toBe(2)
  })

  it("lies between the two middle values where their number is even", () => {
    expect(median([4, 1, 2, 100])).toBe(3)
  })

  it("leaves the samples in their order", () => {
    const given = [3, 1, 2]
    median(given)
    expect(given).toEqual([3, 1, 2])
  })

  it("has at most half of the samples on either side", () => {
    fc.assert(
      fc.property(samples, (given) => {
        const middle = median(given)
        expect(given.filter((sample) => sample < middle).length).toBeLessThanOrEqual(
          given.length / 2,
        )
        expect(given.filter((sample) => sample > middle).length).toBeLessThanOrEqual(
          given.length / 2,
        )
      }),
    )
  })

  it("refuses an empty list", () => {
    expect(() => median([])).toThrow("no samples")
  })
})

describe("percentile", () => {
  const hundred = Array.from({ length: 100 }, (_, index) => 100 - index)

  it("is a sample that the given percentage does not exceed", () => {
    expect(percentile(hundred, 99)).toBe(99)
    expect(percentile(hundred, 50)).toBe(50)
    expect(percentile(hundred, 100)).toBe(100)
    expect(percentile(hundred, 0)).toBe(1)
    expect(percentile([7], 99)).toBe(7)
  })

  it("leaves one in a hundred above it", () => {
    const twoHundred = [...hundred, ...hundred]
    const p99 = percentile(twoHundred, 99)
    expect(twoHundred.filter((sample) => sample > p99)).toHaveLength(2)
  })
})
