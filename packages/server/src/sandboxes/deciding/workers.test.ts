import { newId, type SandboxId } from "@berth/protocol/ids"
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import type { Action, Decision } from "./decide.ts"
import type { Before, Looked } from "./look.ts"
import { FIRST_BACKOFF_MS, MAX_BACKOFF_MS, openWorkers } from "./workers.ts"

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
})

/** Workers whose looks end when the test says so. */
const start = () => {
  const looks: {
    readonly sandbox: SandboxId
    readonly before: Before | undefined
    readonly end: (looked: Looked) => void
  }[] = []
  const failures: number[] = []
  const workers = openWorkers({
    look: (sandbox, before) => {
      const { promise, resolve } = Promise.withResolvers<Looked>()
      looks.push({ sandbox, before, end: resolve })
      return promise
    },
    onFailure: (_, __, againInMs) => failures.push(againInMs),
  })
  /** Ends the oldest look that runs, and lets what follows happen. */
  const end = async (looked: Looked) => {
    looks.shift()?.end(looked)
    await settled()
  }
  return { workers, looks, failures, end }
}

/** Lets everything happen that needs no time. */
const settled = () => vi.advanceTimersByTimeAsync(0)

const decided = (kind: Exclude<Action["kind"], "stop">, againInMs?: number): Looked => {
  const decision: Decision = { action: { kind }, reason: "of a test" }
  return { decision: againInMs === undefined ? decision : { ...decision, againInMs } }
}
const KEEP = decided("keep")
const FAILED: Looked = { ...decided("remove"), failure: new Error("of a test") }

describe("workers", () => {
  it("look at a sandbox once at a time, and at others meanwhile", async () => {
    const { workers, looks, end } = start()
    const [one, other] = [newId.sandbox(), newId.sandbox()]
    workers.wake(one)
    workers.wake(other)
    workers.wake(one)
    workers.wake(one)
    expect(looks.map(({ sandbox }) => sandbox)).toEqual([one, other])
    await end(KEEP)
    // The look may have been before the later wakes. One more look is enough for both.
    expect(looks.map(({ sandbox }) => sandbox)).toEqual([other, one])
    await end(KEEP)
    await end(KEEP)
    expect(looks).toEqual([])
  })

  it("look again until there is nothing more to do", async () => {
    const { workers, looks, end } = start()
    const settling = workers.settle(newId.sandbox())
    for (const kind of ["query", "drain", "remove"] as const) await end(decided(kind))
    expect(looks).toHaveLength(1)
    await end(KEEP)
    expect(await settling).toEqual({ ...KEEP, first: decided("query") })
    expect(looks).toEqual([])
  })

  it("settle a forgotten sandbox without another look", async () => {
    const { workers, looks, end } = start()
    const settling = workers.settle(newId.sandbox())
    await end(decided("forget"))
    expect(await settling).toEqual({ ...decided("forget"), first: decided("forget") })
    expect(looks).toEqual([])
  })

  it("tell each look of the one before, and whether a wake came since", async () => {
    const { workers, looks, end } = start()
    const sandbox = newId.sandbox()
    workers.wake(sandbox)
    expect(looks[0]?.before).toBeUndefined()
    await end(decided("drain"))
    expect(looks[0]?.before).toEqual({ looked: decided("drain"), isStale: false })
    workers.wake(sandbox)
    await end(decided("remove"))
    expect(looks[0]?.before).toEqual({ looked: decided("remove"), isStale: true })
    await end(KEEP)
    workers.wake(sandbox)
    expect(looks[0]?.before).toBeUndefined()
    await end(KEEP)
  })

  it("hear a wake at any moment around a look's end", async () => {
    // A wake comes in each of the turns after a look's end; a look must follow, or still run.
    for (let turns = 0; turns < 20; turns += 1) {
      const { workers, looks } = start()
      const sandbox = newId.sandbox()
      workers.wake(sandbox)
      looks.shift()?.end(KEEP)
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve()
      workers.wake(sandbox)
      await settled()
      expect(looks).toHaveLength(1)
    }
  })

  it("settle a caller that came during a look by a later one", async () => {
    const { workers, looks, end } = start()
    const sandbox = newId.sandbox()
    workers.wake(sandbox)
    const settling = workers.settle(sandbox)
    await end(FAILED)
    expect(looks).toHaveLength(1)
    await end(KEEP)
    expect(await settling).toEqual({ ...KEEP, first: KEEP })
  })

  it("look again when the decision says", async () => {
    const { workers, looks, end } = start()
    workers.wake(newId.sandbox())
    await end(decided("keep", HOUR_MS))
    await vi.advanceTimersByTimeAsync(HOUR_MS - 1)
    expect(looks).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    expect(looks).toHaveLength(1)
  })

  it("do not look all the time when that is further away than timers reach", async () => {
    const { workers, looks, end } = start()
    workers.wake(newId.sandbox())
    await end(decided("keep", 365 * DAY_MS))
    await vi.advanceTimersByTimeAsync(20 * DAY_MS)
    expect(looks).toEqual([])
  })

  it("wait twice as long after each failure, up to a bound, and start anew after a success", async () => {
    const { workers, looks, failures, end } = start()
    workers.wake(newId.sandbox())
    const waits = [1, 2, 4, 8, 16, 32].map((times) => times * FIRST_BACKOFF_MS)
    for (const waitMs of [...waits, MAX_BACKOFF_MS, MAX_BACKOFF_MS]) {
      await end(FAILED)
      expect(failures.at(-1)).toBe(waitMs)
      await vi.advanceTimersByTimeAsync(waitMs - 1)
      expect(looks).toEqual([])
      await vi.advanceTimersByTimeAsync(1)
      expect(looks).toHaveLength(1)
    }
    await end(decided("keep", HOUR_MS))
    await vi.advanceTimersByTimeAsync(HOUR_MS)
    await end(FAILED)
    expect(failures.at(-1)).toBe(FIRST_BACKOFF_MS)
  })

  it("look at once when they are woken in the wait after a failure, and then wait no more", async () => {
    const { workers, looks, failures, end } = start()
    const sandbox = newId.sandbox()
    workers.wake(sandbox)
    await end(FAILED)
    workers.wake(sandbox)
    expect(looks).toHaveLength(1)
    await end(FAILED)
    expect(failures).toEqual([FIRST_BACKOFF_MS, 2 * FIRST_BACKOFF_MS])
    workers.wake(sandbox)
    await end(KEEP)
    await vi.advanceTimersByTimeAsync(HOUR_MS)
    expect(looks).toEqual([])
  })

  it("go on after a look that throws", async () => {
    const failures: unknown[] = []
    const thrown = new Error("of a test")
    const workers = openWorkers({
      look: () => Promise.reject(thrown),
      onFailure: (_, failure) => failures.push(failure),
    })
    expect(await workers.settle(newId.sandbox())).toMatchObject({ failure: thrown })
    expect(failures).toEqual([thrown])
    await workers.close()
  })

  describe("that are to look later", () => {
    it("look at that time", async () => {
      const { workers, looks } = start()
      workers.wakeIn(newId.sandbox(), HOUR_MS)
      await vi.advanceTimersByTimeAsync(HOUR_MS - 1)
      expect(looks).toEqual([])
      await vi.advanceTimersByTimeAsync(1)
      expect(looks).toHaveLength(1)
    })

    it("look before that time after a failure, or at an earlier time that was asked for", async () => {
      const { workers, looks, end } = start()
      const sandbox = newId.sandbox()
      workers.wake(sandbox)
      await end(FAILED)
      workers.wakeIn(sandbox, HOUR_MS)
      await vi.advanceTimersByTimeAsync(FIRST_BACKOFF_MS)
      expect(looks).toHaveLength(1)
      await end(decided("keep", DAY_MS))
      workers.wakeIn(sandbox, HOUR_MS)
      await vi.advanceTimersByTimeAsync(HOUR_MS)
      expect(looks).toHaveLength(1)
    })

    it("look again after a running look, which may have seen an older state", async () => {
      const { workers, looks, end } = start()
      const sandbox = newId.sandbox()
      workers.wake(sandbox)
      workers.wakeIn(sandbox, HOUR_MS)
      await end(KEEP)
      expect(looks).toHaveLength(1)
    })
  })

  describe("that are closed", () => {
    it("wait for running looks, and begin no more", async () => {
      const { workers, looks, end } = start()
      const [one, other] = [newId.sandbox(), newId.sandbox()]
      workers.wake(one)
      workers.wake(other)
      workers.wakeIn(newId.sandbox(), 1)
      workers.wake(one)
      let isClosed = false
      const closing = workers.close().then(() => {
        isClosed = true
      })
      await end(decided("drain"))
      expect([isClosed, looks.map(({ sandbox }) => sandbox)]).toEqual([false, [other]])
      await end(FAILED)
      await closing
      workers.wake(one)
      workers.wakeIn(one, 1)
      await vi.advanceTimersByTimeAsync(DAY_MS)
      expect(looks).toEqual([])
      expect(await workers.settle(one)).toMatchObject({ failure: { code: "server.stopping" } })
    })
  })
})
