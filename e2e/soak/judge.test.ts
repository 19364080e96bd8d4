import { seeded } from "@berth/testing/seed"
import { describe, expect, it } from "vitest"
import { complaintOf, growthOf, lifeOf, type Measure, type Sample } from "./judge.ts"

const MEMORY: Measure = { name: "the server's memory", unit: "MB", maxPerHour: 10, shortSlack: 40 }
const MINUTE_MS = 60_000
const random = seeded(1)

/** A sample each five seconds. */
const lifeWith = (minutes: number, valueAt: (hours: number) => number): Sample[] =>
  Array.from({ length: minutes * 12 }, (_, index) => ({
    atMs: 1_000_000 + index * 5_000,
    value: valueAt((index * 5) / 3_600),
  }))

const judged = (minutes: number, valueAt: (hours: number) => number) =>
  growthOf(MEMORY, lifeWith(minutes, valueAt), lifeOf(2 * minutes * MINUTE_MS).warmUpMs)

describe("growth in lives of half an hour", () => {
  it("is told per hour", () => {
    const growth = judged(30, (hours) => 200 + 30 * hours)
    expect(growth?.perHour).toBeCloseTo(30, 0)
    expect(growth?.isTooMuch).toBe(true)
  })

  it("is found in samples that go up and down", () => {
    expect(judged(30, (hours) => 200 + 40 * hours + 8 * random())?.isTooMuch).toBe(true)
  })

  it("is none where a server warms up and then stays as it is", () => {
    const growth = judged(30, (hours) => 200 - 100 * Math.exp(-hours * 60))
    expect(growth).toMatchObject({ isTooMuch: false })
    expect(growth?.perHour).toBeLessThan(1)
  })

  it("is none where samples only go up and down", () => {
    expect(judged(30, () => 200 + 50 * random())?.isTooMuch).toBe(false)
  })

  it("may be as much as the measure allows", () => {
    expect(judged(30, (hours) => 200 + 9 * hours)?.isTooMuch).toBe(false)
    expect(judged(30, (hours) => 200 + 11 * hours)?.isTooMuch).toBe(true)
  })

  it("is none where samples fall", () => {
    expect(judged(30, (hours) => 200 - 50 * hours)?.isTooMuch).toBe(false)
  })
})

describe("growth in shorter lives", () => {
  it("counts only beyond the slack that a short life has", () => {
    expect(judged(3, (hours) => 200 + 600 * hours)?.isTooMuch).toBe(false)
    expect(judged(3, (hours) => 200 + 6_000 * hours)?.isTooMuch).toBe(true)
  })

  it("is not judged from a few samples", () => {
    expect(
      growthOf(
        MEMORY,
        lifeWith(1, () => 200),
        45_000,
      ),
    ).toBeUndefined()
    expect(growthOf(MEMORY, [], 0)).toBeUndefined()
  })
})

it("a complaint says which measure grew, by how much, and what is allowed", () => {
  const growth = { from: 200, to: 214.96, perHour: 59.84, isTooMuch: true }
  expect(complaintOf(MEMORY, growth)).toBe(
    "the server's memory grew by 59.8 MB per hour, from 200 to 215: at most 10 may come",
  )
})

it("a soak lets servers live for half an hour where there is time for two of them, else for half of the run", () => {
  expect(lifeOf(240 * MINUTE_MS).lifeMs).toBe(30 * MINUTE_MS)
  expect(lifeOf(60 * MINUTE_MS).lifeMs).toBe(30 * MINUTE_MS)
  expect(lifeOf(10 * MINUTE_MS).lifeMs).toBe(5 * MINUTE_MS)
})
