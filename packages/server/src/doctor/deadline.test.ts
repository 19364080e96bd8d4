import { setTimeout } from "node:timers/promises"
import { describe, expect, it } from "vitest"
import { withDeadline } from "./deadline.ts"

/** Long after the deadline, and long before the clean-up is given up. */
const SLOW_CLEANUP_MS = 100

const never = new AbortController().signal
const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true })
  })

describe("withDeadline", () => {
  it("passes on what the work returns, and what it throws", async () => {
    expect(await withDeadline(async () => 7, never)).toBe(7)
    const failing = withDeadline(async () => Promise.reject(new Error("no")), never)
    await expect(failing).rejects.toThrow("no")
  })

  it("awaits the clean-up of work that obeys the deadline", async () => {
    let cleaned = false
    const obedient = withDeadline(
      async (signal) => {
        await aborted(signal)
        await setTimeout(SLOW_CLEANUP_MS)
        cleaned = true
        throw new Error("something else")
      },
      never,
      { deadlineMs: 20 },
    )
    await expect(obedient).rejects.toMatchObject({ code: "deadline.exceeded" })
    expect(cleaned).toBe(true)
  })

  it("rejects, after the time for clean-up, when the work does not obey the deadline", async () => {
    const hanging = withDeadline(() => new Promise(() => {}), never, {
      deadlineMs: 20,
      cleanupMs: 20,
    })
    await expect(hanging).rejects.toMatchObject({ code: "deadline.exceeded" })
  })

  it("returns a result that comes after a cancel, and rejects when none comes", async () => {
    const stop = new AbortController()
    const running = withDeadline(aborted, stop.signal)
    stop.abort(new Error("enough"))
    // The work obeyed and returned.
    await expect(running).resolves.toBeUndefined()
    const late = withDeadline(() => new Promise(() => {}), stop.signal, { cleanupMs: 20 })
    await expect(late).rejects.toThrow("enough")
  })
})
