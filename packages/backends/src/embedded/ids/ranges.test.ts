import { describe, expect, it } from "vitest"
import { RANGES, rangeAt } from "./range.ts"
import { openIdRanges } from "./ranges.ts"

const INSTALLATION = rangeAt(7)

describe("the ranges of ids of an installation", () => {
  it("are handed out once each, without the installation's own and adopted ones, until none is left", () => {
    const ranges = openIdRanges(INSTALLATION)
    const adopted = rangeAt(9)
    ranges.hold(adopted)
    const taken = Array.from({ length: RANGES - 2 }, () => ranges.take())
    expect(new Set(taken).size).toBe(RANGES - 2)
    expect(taken).not.toContain(undefined)
    expect(taken).not.toContain(INSTALLATION)
    expect(taken).not.toContain(adopted)
    expect(ranges.take()).toBeUndefined()
  })

  it("are handed out again after they were freed, the freed one last", () => {
    const ranges = openIdRanges(INSTALLATION)
    const first = ranges.take() as number
    ranges.free(first)
    ranges.free(INSTALLATION)
    const others = Array.from({ length: RANGES - 2 }, () => ranges.take())
    expect(others).not.toContain(first)
    expect(ranges.take()).toBe(first)
    expect(ranges.take()).toBeUndefined()
  })
})
