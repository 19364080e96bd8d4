import { MAX_MESSAGE_DEPTH } from "@berth/protocol/bridge-limits"
import type { ErrorCode } from "@berth/protocol/errors"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { retryDelayMs } from "./backoff.ts"
import { parseFromSandbox, words } from "./parse.ts"
import { Throttle } from "./throttle.ts"

describe("the depth of a message", () => {
  const depthOf = (value: unknown): number =>
    typeof value === "object" && value !== null
      ? 1 + Math.max(0, ...Object.values(value).map(depthOf))
      : 0

  it("is counted as JSON nests, whatever stands in its strings", () => {
    const nesting = fc.jsonValue({ maxDepth: 6 })
    fc.assert(
      fc.property(nesting, fc.nat(18), (inner, wraps) => {
        let value: unknown = inner
        for (let wrap = 0; wrap < wraps; wrap++) value = wrap % 2 ? [value] : { '"[{\\': value }
        const parse = () => parseFromSandbox(Buffer.from(JSON.stringify(value)), z.unknown())
        if (depthOf(value) <= MAX_MESSAGE_DEPTH)
          expect(parse()).toEqual(JSON.parse(JSON.stringify(value)))
        else expect(parse).toThrow(expect.objectContaining({ code: "bridge.limit_exceeded" }))
      }),
      { seed: 5, numRuns: 500 },
    )
  })

  it("is known before anything is built from it", () => {
    const bomb = Buffer.from("[".repeat(1_000_000))
    expect(() => parseFromSandbox(bomb, z.unknown())).toThrow(
      expect.objectContaining({ code: "bridge.limit_exceeded" }),
    )
  })
})

describe("the sandbox's words", () => {
  it("are short, and obeyed by no terminal", () => {
    expect(words(`a${"\u001b[2J"}\r\n${"\u202e"}${"x".repeat(1_000)}`)).toMatch(/^a�\[2J���x{492}$/)
  })
})

describe("the throttle", () => {
  it("lets a burst pass, and then no more than its rate, however it is asked for", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(50), fc.nat(200)), { minLength: 1 }), (takes) => {
        const throttle = new Throttle({ perSecond: 1000, burst: 100 }, 0)
        let nowMs = 0
        let taken = 0
        for (const [pauseMs, amount] of takes) {
          nowMs += pauseMs
          taken += amount
          nowMs += throttle.take(amount, nowMs)
          expect(taken).toBeLessThanOrEqual(100 + nowMs + 1e-6)
        }
      }),
      { seed: 5 },
    )
    const throttle = new Throttle({ perSecond: 1000, burst: 100 }, 0)
    expect(throttle.take(100, 0)).toBe(0)
    expect(throttle.take(50, 0)).toBe(50)
    expect(throttle.take(0, 1_000)).toBe(0)
    expect(throttle.take(100, 1_000)).toBe(0)
  })
})

describe("the pause before another try", () => {
  it("grows to ten seconds for what answers wrongly, to one for what breaks, to 100 ms for what is not there", () => {
    const delays = (code: ErrorCode, random: number) =>
      [1, 2, 3, 10, 1_000].map((failures) => retryDelayMs(failures, code, random))
    expect(delays("bridge.unreachable", 1)).toEqual([10, 20, 40, 100, 100])
    expect(delays("bridge.dropped", 1)).toEqual([50, 100, 200, 1_000, 1_000])
    expect(delays("bridge.wrong_number", 1)).toEqual([50, 100, 200, 10_000, 10_000])
    expect(delays("bridge.wrong_number", 0)).toEqual([25, 50, 100, 5_000, 5_000])
  })
})
