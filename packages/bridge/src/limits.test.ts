import { Throttle } from "@berth/host/throttle"
import { MAX_MESSAGE_DEPTH, MAX_MESSAGE_VALUES } from "@berth/protocol/bridge-limits"
import type { ErrorCode } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { listOf } from "@berth/protocol/list"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { retryDelayMs, Wrongs } from "./backoff.ts"
import { BURST_PARSE_MS, PARSE_MS_PER_SECOND } from "./limits.ts"
import { Pace, threadMs } from "./pace.ts"
import { parseFromSandbox, parseSupervisorMessage, words } from "./parse.ts"

describe("the depth of a message", () => {
  const depthOf = (value: unknown): number =>
    typeof value === "object" && value !== null
      ? 1 + Math.max(0, ...Object.values(value).map(depthOf))
      : 0

  it("is counted as JSON nests, whatever its strings hold", () => {
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
      { seed: runSeed(), numRuns: 500 },
    )
  })

  it("is judged before the message is parsed", () => {
    const bomb = Buffer.from("[".repeat(1_000_000))
    expect(() => parseFromSandbox(bomb, z.unknown())).toThrow(
      expect.objectContaining({ code: "bridge.limit_exceeded" }),
    )
  })
})

describe("the cost of a message", () => {
  const parse = (text: string) => () => parseSupervisorMessage(Buffer.from(text))

  it("is judged by the number of its values, whatever its strings hold", () => {
    expect(parse(`{"type":"events","events":[${"{},".repeat(349_000)}{}]}`)).toThrow(
      expect.objectContaining({
        code: "bridge.limit_exceeded",
        details: { limit: "values", max: MAX_MESSAGE_VALUES },
      }),
    )
    const text = JSON.stringify(",[{".repeat(MAX_MESSAGE_VALUES))
    expect(parseFromSandbox(Buffer.from(text), z.string())).toHaveLength(3 * MAX_MESSAGE_VALUES)
  })

  it("does not grow with its errors: the first wrong element is the last one that is looked at", () => {
    let looks = 0
    const wrong = z.custom<never>(() => {
      looks++
      return false
    })
    const list = (max: number) => z.object({ of: listOf(wrong, { max }) })
    const bytes = Buffer.from(JSON.stringify({ of: Array.from({ length: 1_000 }, () => 0) }))
    expect(() => parseFromSandbox(bytes, list(1_000))).toThrow(
      expect.objectContaining({
        code: "bridge.protocol_violated",
        details: { where: "of.0", problem: "custom" },
      }),
    )
    expect(looks).toBe(1)
    expect(() => parseFromSandbox(bytes, list(999))).toThrow(
      expect.objectContaining({ details: { where: "of", problem: "custom" } }),
    )
    expect(looks).toBe(1)
  })

  it("is less than 600 ms of the processor for six attacks together", () => {
    const prompt = newId.prompt()
    const at = "2026-01-02T03:04:05.678Z"
    const inEvent = (body: string) =>
      `{"type":"events","events":[{"sequence":1,"at":"${at}","body":${body}}]}`
    const elements = (element: string) =>
      Array.from({ length: Math.floor(MAX_MESSAGE_VALUES / 2) - 20 }, () => element).join()
    const attacks = [
      `{"type":"events","events":[${elements("{}")}]}`,
      inEvent(`{"type":"todo.updated","prompt":"${prompt}","todos":[${elements("{}")}]}`),
      inEvent(`{"type":"gap","reason":"","all":[${elements("{}")}]}`),
      inEvent(`{"type":"gap",${Array.from({ length: 30_000 }, (_, key) => `"${key}":0`).join()}}`),
      `{"type":"ask","id":"ask-${"0".repeat(20)}","ask":{"kind":"repo","repo":"r","have":[${elements("0")}]}}`,
      `{"type":"events","events":["${"\\u0000".repeat(170_000)}"]}`,
    ]
    for (const attack of attacks) expect(parse(attack)).toThrow()
    const before = threadMs()
    for (const attack of attacks) expect(parse(attack)).toThrow()
    // They take some 60 ms together. Collecting every error of one attack takes up to 400 ms.
    expect(threadMs() - before).toBeLessThan(600)
  })
})

describe("the pace of a sandbox", () => {
  it("is bounded by the time that parsing takes, also for ten bytes", () => {
    const pace = new Pace(0)
    const dear = { bytes: 10, events: 0, parseMs: BURST_PARSE_MS }
    expect(pace.take(dear, 0)).toBe(0)
    expect(pace.take(dear, 0)).toBe((1_000 * BURST_PARSE_MS) / PARSE_MS_PER_SECOND)
  })
})

describe("the sandbox's words", () => {
  it("are cut to 500 characters, without control characters", () => {
    expect(words(`a${"\u001b[2J"}\r\n${"\u202e"}${"x".repeat(1_000)}`)).toMatch(/^a�\[2J���x{492}$/)
  })
})

describe("the throttle", () => {
  it("lets a burst pass, and then no more than its rate, in whatever amounts", () => {
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
      { seed: runSeed() },
    )
    const throttle = new Throttle({ perSecond: 1000, burst: 100 }, 0)
    expect(throttle.take(100, 0)).toBe(0)
    expect(throttle.take(50, 0)).toBe(50)
    expect(throttle.take(0, 1_000)).toBe(0)
    expect(throttle.take(100, 1_000)).toBe(0)
  })
})

describe("the pause before another try", () => {
  it("grows to ten seconds after wrong answers, to one after drops, to 100 ms while nothing is there", () => {
    const delays = (code: ErrorCode, random: number) =>
      [1, 2, 3, 10, 1_000].map((failures) => retryDelayMs(failures, code, random))
    expect(delays("bridge.unreachable", 1)).toEqual([10, 20, 40, 100, 100])
    expect(delays("bridge.dropped", 1)).toEqual([50, 100, 200, 1_000, 1_000])
    expect(delays("bridge.wrong_number", 1)).toEqual([50, 100, 200, 10_000, 10_000])
    expect(delays("bridge.wrong_number", 0)).toEqual([25, 50, 100, 5_000, 5_000])
  })

  it("counts wrong answers up to ten, and forgets one a minute", () => {
    const wrongs = new Wrongs()
    expect([0, 1, 2, 59_000].map((nowMs) => wrongs.add(nowMs))).toEqual([1, 2, 3, 4])
    expect(wrongs.add(59_000 + 2 * 60_000)).toBe(3)
    expect(wrongs.add(1_000 * 60_000)).toBe(1)
    for (let count = 0; count < 100; count++) wrongs.add(1_000 * 60_000)
    expect(wrongs.add(1_000 * 60_000)).toBe(10)
  })
})
