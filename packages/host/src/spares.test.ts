import { afterEach, beforeEach, expect, it, vi } from "vitest"
import { openSpares } from "./spares.ts"

const signal = new AbortController().signal

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const open = (refusals: readonly number[] = []) => {
  const made: number[] = []
  const discarded: number[] = []
  const make = () => {
    made.push(made.length)
    if (refusals.includes(made.length - 1)) throw new Error("not now")
    return made.length - 1
  }
  return { made, discarded, spares: openSpares(make, (spare) => discarded.push(spare)) }
}

it("makes the first spare when it is taken, and has the next one ready a moment later", () => {
  const { made, spares } = open()
  expect(made).toEqual([])
  expect(spares.take(signal)).toBe(0)
  expect(made).toEqual([0])
  vi.runAllTimers()
  expect(made).toEqual([0, 1])
  expect(spares.take(signal)).toBe(1)
  expect(made).toEqual([0, 1])
})

it("hands out each spare once, and keeps only one ready", () => {
  const { made, spares } = open()
  expect([1, 2, 3].map(() => spares.take(signal))).toEqual([0, 1, 2])
  vi.runAllTimers()
  expect(made).toEqual([0, 1, 2, 3])
})

it("reports a spare that cannot be made to a caller that needs it, and to no other", () => {
  const { spares } = open([1, 2])
  expect(spares.take(signal)).toBe(0)
  vi.runAllTimers()
  expect(() => spares.take(signal)).toThrow("not now")
  expect(spares.take(signal)).toBe(3)
})

it("discards the waiting spare when it is closed, and keeps none ready from then on", () => {
  const { made, discarded, spares } = open()
  spares.take(signal)
  vi.runAllTimers()
  spares.close()
  expect(discarded).toEqual([1])
  expect(spares.take(signal)).toBe(2)
  vi.runAllTimers()
  expect(made).toEqual([0, 1, 2])
})
