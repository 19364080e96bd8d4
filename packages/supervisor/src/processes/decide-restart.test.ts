import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { decideRestart, RESTART_POLICY, type RestartPolicy } from "./decide-restart.ts"

const ended = (failures: number, readyForMs = 0) => ({
  failures,
  readyForMs,
  how: "it ended with status 1",
})

const policy = fc.record<RestartPolicy>({
  firstDelayMs: fc.integer({ min: 1, max: 1000 }),
  maxDelayMs: fc.integer({ min: 1000, max: 60_000 }),
  jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  healthyAfterMs: fc.integer({ min: 1, max: 60_000 }),
  maxFailures: fc.integer({ min: 1, max: 20 }),
})
const chance = fc.double({ min: 0, max: 1, noNaN: true })

describe("decideRestart", () => {
  it("[R2.11] waits twice as long after each failure in a row, up to a limit", () => {
    const noJitter = { ...RESTART_POLICY, jitter: 0, maxFailures: Infinity }
    const delays = Array.from({ length: 9 }, (_, failures) => {
      const decision = decideRestart(noJitter, ended(failures), 0.5)
      return decision.action === "restart" ? decision.afterMs : "given up"
    })
    expect(delays).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
  })

  it("[R2.11] gives up at the limit, with a reason, and not one failure earlier", () => {
    const { maxFailures } = RESTART_POLICY
    expect(decideRestart(RESTART_POLICY, ended(maxFailures - 2), 0).action).toBe("restart")
    expect(decideRestart(RESTART_POLICY, ended(maxFailures - 1), 0)).toEqual({
      action: "give-up",
      failures: 6,
      reason: "it ended with status 1; that was failure 6 in a row, and 6 are the limit",
    })
  })

  it("[R2.11] forgets earlier failures after a healthy while, and only then", () => {
    const { healthyAfterMs } = RESTART_POLICY
    expect(decideRestart(RESTART_POLICY, ended(4, healthyAfterMs), 0).failures).toBe(1)
    expect(decideRestart(RESTART_POLICY, ended(4, healthyAfterMs - 1), 0).failures).toBe(5)
  })

  it("[R2.11] spreads the delay within its bounds, and names it in its reason", () => {
    fc.assert(
      fc.property(policy, fc.nat(30), chance, (given, failures, by) => {
        const decision = decideRestart(given, ended(failures), by)
        if (decision.action === "give-up") {
          expect(decision.failures).toBeGreaterThanOrEqual(given.maxFailures)
          return
        }
        expect(decision.afterMs).toBeLessThanOrEqual(given.maxDelayMs)
        const leastMs = Math.min(given.maxDelayMs, given.firstDelayMs) * (1 - given.jitter)
        expect(decision.afterMs).toBeGreaterThanOrEqual(Math.floor(leastMs))
        expect(decision.reason).toContain(`${decision.afterMs} ms`)
      }),
    )
  })
})
