import { describe, expect, it } from "vitest"
import type { Bound } from "./benchmark.ts"
import { judge } from "./judge.ts"

const subject = (bound: Bound, statistic: "median" | "p99" = "median") =>
  ({ unit: "ms", runs: 7, bound, statistic }) as const

const samples = { ours: [40, 20, 30], other: [10, 10, 10] }

describe("judge", () => {
  it.each<[Bound, number, boolean, string]>([
    [{ of: "ratio", atMost: 3 }, 3, true, "median of ours / median of other, at most 3"],
    [{ of: "ratio", atMost: 2.9 }, 3, false, "median of ours / median of other, at most 2.9"],
    [{ of: "ratio", atLeast: 3 }, 3, true, "median of ours / median of other, at least 3"],
    [{ of: "ratio", atLeast: 3.1 }, 3, false, "median of ours / median of other, at least 3.1"],
    [{ of: "difference", atMost: 20 }, 20, true, "median of ours − median of other, at most 20 ms"],
    [
      { of: "difference", atMost: 19 },
      20,
      false,
      "median of ours − median of other, at most 19 ms",
    ],
    [{ of: "ours", atMost: 30 }, 30, true, "median of ours, at most 30 ms"],
    [{ of: "ours", atLeast: 31 }, 30, false, "median of ours, at least 31 ms"],
  ])("holds %o against %d: %s", (bound, figure, holds, note) => {
    expect(judge("name", subject(bound), samples)).toEqual({
      name: "name",
      ours: 30,
      other: 10,
      unit: "ms",
      ratio: figure,
      limit: "atMost" in bound ? bound.atMost : bound.atLeast,
      holds,
      runs: 7,
      note,
    })
  })

  it("needs no other side for a bound on ours", () => {
    const result = judge("name", subject({ of: "ours", atMost: 30 }), { ...samples, other: [] })
    expect(result).toMatchObject({ ours: 30, other: null, ratio: 30, holds: true })
  })

  it("takes the p99 from at least 200 samples", () => {
    const many = Array.from({ length: 200 }, (_, index) => index + 1)
    const bound: Bound = { of: "ratio", atMost: 1 }
    expect(judge("name", subject(bound, "p99"), { ours: many, other: many })).toMatchObject({
      ours: 198,
      ratio: 1,
      holds: true,
    })
    expect(
      judge("name", subject(bound, "p99"), { ours: many, other: many.slice(1) }),
    ).toMatchObject({
      ratio: null,
      holds: false,
      note: "199 samples are too few for a p99",
    })
  })

  it("decides before it rounds", () => {
    const close = { ours: [2.50001], other: [1] }
    expect(judge("name", subject({ of: "ratio", atMost: 2.5 }), close)).toMatchObject({
      ratio: 2.5,
      holds: false,
    })
  })
})
