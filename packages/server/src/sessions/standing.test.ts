import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { LIMITS } from "./limits.ts"
import { newStanding, observe, refused, type Standing, succeeded } from "./standing.ts"

const fresh = newStanding(0, { hasLease: true })
const hindrance = { code: "bridge.unreachable", message: "it is not reached" }
const { stop, watch } = LIMITS

/** Observes a sandbox at these times. */
const observeAt = (
  standing: Standing,
  times: readonly number[],
  { isHindered = true, isStopRequested = true } = {},
) =>
  times.reduce(
    (before, nowMs) =>
      observe(before, isHindered ? hindrance : undefined, { nowMs, isStopRequested }, LIMITS),
    standing,
  ).observed

describe("the silence after a stop", () => {
  it("is counted from when the stop is first seen", () => {
    expect(observeAt(fresh, [200], { isStopRequested: false }).unheardMs).toBeUndefined()
    expect(observeAt(fresh, [400]).unheardMs).toBe(0)
    expect(observeAt(fresh, [400, 600, 700]).unheardMs).toBe(300)
  })

  it("does not count time in which the server itself stood still", () => {
    expect(observeAt(fresh, [0, 60_000]).unheardMs).toBe(2 * stop.lookEveryMs)
    expect(observeAt(fresh, [0, 60_000]).hinderedMs).toBe(2 * watch.lookEveryMs)
  })

  it("ends with an answer, and not before the sandbox has answered to the stop", () => {
    const settled = { ...fresh, isSettled: true }
    expect(observeAt(settled, [0, 100], { isHindered: false }).unheardMs).toBe(0)
    expect(observeAt(settled, [0, 100]).unheardMs).toBe(100)
    expect(observeAt(fresh, [0, 100], { isHindered: false }).unheardMs).toBe(100)
  })
})

describe("a hindrance", () => {
  it("is counted from when it is first seen, however long the prompt waited for its sandbox", () => {
    expect(observeAt(fresh, [60_000], { isStopRequested: false }).hinderedMs).toBe(0)
    expect(observeAt(fresh, [60_000, 60_700], { isStopRequested: false }).hinderedMs).toBe(700)
  })

  it("is counted anew after the sandbox was not hindered", () => {
    const standing = { ...fresh, observed: observeAt(fresh, [0, 900]) }
    const freed = { ...fresh, observed: observeAt(standing, [1_000], { isHindered: false }) }
    expect(observeAt(freed, [1_900, 2_000]).hinderedMs).toBe(100)
  })
})

describe("a refusal", () => {
  const error = new BerthError("bridge.dropped", "broken")
  const waitsOf = (hasWaited: boolean): (number | undefined)[] => {
    let standing = fresh
    return [1, 2, 3].map((nowMs) => {
      standing = refused(standing, error, { nowMs, hasWaited })
      return standing.refusal?.waitMs
    })
  }

  it("is waited for longer each time", () => {
    expect(waitsOf(false)).toEqual([50, 100, 200])
  })

  it("is waited for no longer where the call has waited", () => {
    expect(waitsOf(true)).toEqual([50, 50, 50])
  })

  it("is forgotten with the next success", () => {
    const standing = refused({ ...fresh, isCalling: true }, error, { nowMs: 1, hasWaited: false })
    expect(standing).toMatchObject({ isCalling: false, refusal: { error, atMs: 1 } })
    expect(succeeded(standing, { isStarted: true })).toMatchObject({
      isCalling: false,
      isStarted: true,
      refusal: undefined,
    })
  })
})
