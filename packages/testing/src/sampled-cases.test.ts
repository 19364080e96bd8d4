import { beforeAll, describe, expect, it } from "vitest"
import { runFixture } from "./fixtures/run.ts"

const RUNS = {
  partial: { BERTH_SEED: "1720" },
  whole: { BERTH_TEST_ALL: "1" },
}

/** The outputs of two runs of the fixtures. */
let partial: string
let whole: string
beforeAll(async () => {
  const runs = Object.values(RUNS).map((environment) => runFixture("draws-", environment))
  ;[partial = "", whole = ""] = (await Promise.all(runs)).map(({ output }) => output)
})

describe("cases of a suite that are drawn", () => {
  /** The titles of the cases that ran, in their order. */
  const titlesIn = (output: string) => [...output.matchAll(/^ran (.*)\.$/gm)].map(([, one]) => one)

  it("run as many as the suite takes, by the seed, under the titles of their groups, and the report says so", () => {
    expect(titlesIn(partial)).toEqual(["outer > inner > three", "outer > four", "whole > six"])
    expect(partial).toContain("\n   cases: 2 of 5, seed 1720\n")
    expect(partial).not.toContain("cases without a count")
    expect(partial).toMatch(/Tests +1 failed \| 4 passed/)
  })

  it("run all in a whole run, in their groups", () => {
    expect(titlesIn(whole)).toEqual([
      ...["one", "outer > two", "outer > inner > three", "outer > four", "five", "whole > six"],
    ])
    expect(whole).not.toContain("Sampled")
    expect(whole).toMatch(/Tests +1 failed \| 7 passed/)
  })

  it("have the deadline that the suite gives them", () => {
    for (const output of [partial, whole]) {
      expect(output).toContain("FAIL  draws-late.fixture.ts > is late\n")
      expect(output).toContain("Test timed out in 1ms")
    }
  })
})

describe("suites that draw together", () => {
  const SUITES = ["blue", "green", "red"]
  const ITEMS = SUITES.flatMap((suite) => [`${suite}-x`, `${suite}-y`])

  /** By each of many seeds: the suite that is drawn of three, and the items that they draw together. */
  const drawsIn = (output: string) => {
    const draws = [...output.matchAll(/^drawn (.*), (.*)\.$/gm)]
    expect(draws).toHaveLength(40)
    return {
      suites: draws.map(([, suites = ""]) => suites.split(" ")),
      items: draws.map(([, , items = ""]) => items.split(" ")),
    }
  }
  const allOf = (draws: readonly (readonly string[])[]) => [...new Set(draws.flat())].toSorted()
  const sizesOf = (draws: readonly (readonly string[])[]) => [
    ...new Set(draws.map((drawn) => new Set(drawn).size)),
  ]

  it("are one of all or take so many items between them, by the seed, and the report says so", () => {
    const { suites, items } = drawsIn(partial)
    expect(sizesOf(suites)).toEqual([1])
    expect(allOf(suites)).toEqual(SUITES)
    expect(sizesOf(items)).toEqual([4])
    expect(allOf(items)).toEqual(ITEMS)
    // Not always as many of one suite.
    const ofRed = items.map((drawn) => drawn.filter((item) => item.startsWith("red")).length)
    expect(new Set(ofRed)).toEqual(new Set([0, 1, 2]))
    expect(partial).toMatch(/\n {3}items: 160 of 240, seed \d+\n/)
    expect(partial).toMatch(/\n {3}suites: 40 of 120, seed \d+\n/)
  })

  it("are all drawn with all items in a whole run", () => {
    const { suites, items } = drawsIn(whole)
    for (const drawn of suites) expect(drawn.toSorted()).toEqual(SUITES)
    for (const drawn of items) expect(drawn.toSorted()).toEqual(ITEMS)
  })
})
