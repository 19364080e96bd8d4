import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { LeaseKind } from "@berth/protocol/lease"
import { type KyselyPlugin, sql } from "kysely"
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import { USABLE_PHASES } from "../state/phases.ts"
import { openRows, type Rows } from "../state/rows.ts"
import { FakeClock } from "../testing/clock.ts"
import { insertRow } from "../testing/rows.ts"
import { storeOfFile } from "../testing/store.ts"
import { LATE_TICK_MS, LEASE_TICK_MS, type Leases, openLeases } from "./leases.ts"

const TTL_MS = 10_000
const YEARS_MS = 10 * 365 * 24 * 3600 * 1000
const STOP = { cause: "stale", reason: "of a test" } as const

const store = storeOfFile()
let clock: FakeClock
let rows: Rows
let leases: Leases
let freed: SandboxId[]

/** Opens the leases that an earlier server left, as a server does at its start. */
const start = async (): Promise<Leases> => {
  freed = []
  const opened = await openLeases({ db: store.db, clock, onFree: (sandbox) => freed.push(sandbox) })
  onTestFinished(() => opened.close())
  return opened
}

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
  onTestFinished(() => {
    vi.useRealTimers()
  })
  await store.db.deleteFrom("leases").execute()
  clock = new FakeClock()
  rows = openRows(store.db, clock)
  leases = await start()
})

/** Passes time, tick by tick. */
const pass = async (ms: number): Promise<void> => {
  for (let passed = 0; passed < ms; passed += LEASE_TICK_MS) {
    clock.pass(LEASE_TICK_MS)
    await vi.advanceTimersByTimeAsync(LEASE_TICK_MS)
  }
}

const kindsOf = async (sandbox: SandboxId) =>
  (await leases.of(sandbox)).map(({ kind }) => kind).toSorted()

describe("leases", () => {
  it.each(LeaseKind.options)(
    "[R1.7] of kind %s keep a sandbox from the claim to the release",
    async (kind) => {
      const sandbox = await insertRow(rows, "ready")
      const lease = await leases.acquire({ sandbox, kind, source: "person", holder: "a" })
      expect(await leases.of(sandbox)).toMatchObject([
        { id: lease, sandbox, kind, source: "person", holder: "a" },
      ])
      expect(await rows.beginStop(sandbox, STOP)).toBe(false)
      await leases.release(lease)
      expect(await leases.of(sandbox)).toEqual([])
      expect(await rows.beginStop(sandbox, STOP)).toBe(true)
    },
  )

  it("[R1.7] of prompts and commands never expire, and the others do unless renewed", async () => {
    const sandbox = await insertRow(rows, "ready")
    for (const kind of LeaseKind.options)
      await leases.acquire({ sandbox, kind, source: "person", holder: "a", ttlMs: TTL_MS })
    await pass(TTL_MS - LEASE_TICK_MS)
    expect(await kindsOf(sandbox)).toEqual(LeaseKind.options.toSorted())
    await pass(LEASE_TICK_MS)
    expect(await kindsOf(sandbox)).toEqual(["exec", "prompt"])
    await pass(100 * TTL_MS)
    expect(await kindsOf(sandbox)).toEqual(["exec", "prompt"])
    expect(freed).toEqual([])
  })

  it("[R1.7] without a time do not expire", async () => {
    const sandbox = await insertRow(rows, "ready")
    const hold = await leases.acquire({ sandbox, kind: "hold", source: "person", holder: "a" })
    await pass(100 * TTL_MS)
    expect(await leases.of(sandbox)).toMatchObject([{ id: hold, expiresAt: null }])
  })

  it("[R1.7] live on when they are renewed, and cannot be renewed once they have expired", async () => {
    const sandbox = await insertRow(rows, "ready")
    const lease = await leases.acquire({
      sandbox,
      kind: "preview",
      source: "person",
      holder: "a",
      ttlMs: TTL_MS,
    })
    for (let time = 0; time < 3; time += 1) {
      await pass(TTL_MS - LEASE_TICK_MS)
      expect(leases.renew(lease)).toBe(true)
    }
    await pass(TTL_MS)
    expect(leases.renew(lease)).toBe(false)
    expect(await leases.of(sandbox)).toEqual([])
    expect(freed).toEqual([sandbox])
  })

  it("tell their end by the wall clock", async () => {
    const sandbox = await insertRow(rows, "ready")
    await leases.acquire({ sandbox, kind: "preview", source: "person", holder: "a", ttlMs: TTL_MS })
    clock.pass(1_000)
    const expiresAt = new Date(clock.now() + TTL_MS - 1_000).toISOString()
    expect(await leases.of(sandbox)).toMatchObject([{ expiresAt }])
    expect((await leases.all()).get(sandbox)).toEqual(await leases.of(sandbox))
  })

  it("report a free sandbox once, when the last one is released", async () => {
    const [sandbox, other] = [await insertRow(rows, "ready"), await insertRow(rows, "ready")]
    const first = await leases.acquire({ sandbox, kind: "exec", source: "person", holder: "a" })
    const last = await leases.acquire({ sandbox, kind: "exec", source: "person", holder: "b" })
    await leases.acquire({ sandbox: other, kind: "exec", source: "person", holder: "c" })
    await leases.release(first)
    await leases.release(first)
    expect(freed).toEqual([])
    await Promise.all([leases.release(last), leases.release(last)])
    expect(freed).toEqual([sandbox])
  })

  it("report a free sandbox once when the last ones expire together", async () => {
    const sandbox = await insertRow(rows, "ready")
    for (const holder of ["a", "b", "c"])
      await leases.acquire({ sandbox, kind: "preview", source: "person", holder, ttlMs: TTL_MS })
    await pass(TTL_MS)
    expect(freed).toEqual([sandbox])
  })

  it.each([
    ["forwards", YEARS_MS],
    ["backwards", -YEARS_MS],
  ])("[R1.7] are the same after the wall clock jumped %s", async (_, jumpMs) => {
    const sandbox = await insertRow(rows, "ready")
    const lease = await leases.acquire({
      sandbox,
      kind: "session",
      source: "person",
      holder: "a",
      ttlMs: TTL_MS,
    })
    await pass(TTL_MS / 2)
    clock.jump(jumpMs)
    await pass(TTL_MS / 2 - LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toMatchObject([{ id: lease }])
    await pass(LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toEqual([])
  })

  it("[R1.7] lose no time while the host sleeps", async () => {
    const sandbox = await insertRow(rows, "ready")
    const lease = await leases.acquire({
      sandbox,
      kind: "session",
      source: "person",
      holder: "a",
      ttlMs: TTL_MS,
    })
    await pass(TTL_MS - LEASE_TICK_MS)
    // The wall clock goes on; the timers and the monotonic clock do not.
    clock.jump(8 * 3600 * 1000)
    expect(leases.renew(lease)).toBe(true)
    await pass(TTL_MS - LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toMatchObject([{ id: lease }])
  })

  it("[R1.7] get their whole time again after the server stood still", async () => {
    const sandbox = await insertRow(rows, "ready")
    const lease = await leases.acquire({
      sandbox,
      kind: "session",
      source: "person",
      holder: "a",
      ttlMs: TTL_MS,
    })
    await pass(TTL_MS - LEASE_TICK_MS)
    clock.pass(3600 * 1000)
    await vi.advanceTimersByTimeAsync(LEASE_TICK_MS)
    await pass(TTL_MS - LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toMatchObject([{ id: lease }])
    await pass(LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toEqual([])
  })

  it("get no more time for a tick that is a little late", async () => {
    const sandbox = await insertRow(rows, "ready")
    await leases.acquire({
      sandbox,
      kind: "session",
      source: "person",
      holder: "a",
      ttlMs: LATE_TICK_MS,
    })
    clock.pass(LATE_TICK_MS)
    await vi.advanceTimersByTimeAsync(LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toEqual([])
  })

  it("[R1.9] of calls and forks are gone after a restart, and the others get their whole time", async () => {
    const sandbox = await insertRow(rows, "ready")
    const claim = { sandbox, holder: "a" }
    await leases.acquire({ ...claim, kind: "exec", source: "call" })
    await leases.acquire({ ...claim, kind: "preview", source: "call", ttlMs: TTL_MS })
    await leases.acquire({ ...claim, kind: "hold", source: "fork" })
    await leases.acquire({ ...claim, kind: "exec", source: "sandbox" })
    await leases.acquire({ ...claim, kind: "session", source: "session", ttlMs: TTL_MS })
    await leases.acquire({ ...claim, kind: "hold", source: "person" })
    await pass(TTL_MS - LEASE_TICK_MS)
    leases.close()
    clock.pass(24 * 3600 * 1000)

    leases = await start()
    await pass(TTL_MS - LEASE_TICK_MS)
    expect(await kindsOf(sandbox)).toEqual(["exec", "hold", "session"])
    expect(await rows.beginStop(sandbox, STOP)).toBe(false)
    await pass(LEASE_TICK_MS)
    expect(await kindsOf(sandbox)).toEqual(["exec", "hold"])
  })

  it.each(USABLE_PHASES)("[R1.7] are granted for a sandbox that is %s", async (phase) => {
    const sandbox = await insertRow(rows, phase)
    await leases.acquire({ sandbox, kind: "exec", source: "person", holder: "a" })
    expect(await leases.of(sandbox)).toHaveLength(1)
  })

  it.each(["stopping", "gone", "quarantined"] as const)(
    "[R1.7] are refused for a sandbox that is %s",
    async (phase) => {
      const sandbox = await insertRow(rows, phase)
      await expect(refused(sandbox)).resolves.toBe("sandbox.ended")
      expect(await leases.of(sandbox)).toEqual([])
    },
  )

  it("[R1.7] are refused for an unknown sandbox", async () => {
    await expect(refused(newId.sandbox())).resolves.toBe("sandbox.ended")
  })

  const refused = async (sandbox: SandboxId) => {
    const thrown = await leases
      .acquire({ sandbox, kind: "exec", source: "person", holder: "a" })
      .catch((e) => e)
    return thrown instanceof BerthError && thrown.code
  }

  it("[R1.7] and a stop at the same time exclude each other, in either order", async () => {
    for (const isStopFirst of [true, false]) {
      const sandbox = await insertRow(rows, "draining")
      const stop = () => rows.beginStop(sandbox, STOP)
      const claim = () => refused(sandbox)
      const [stopped, refusal] = isStopFirst
        ? await Promise.all([stop(), claim()])
        : await Promise.all([claim(), stop()]).then(([first, second]) => [second, first])
      expect([stopped, refusal]).toEqual(isStopFirst ? [true, "sandbox.ended"] : [false, false])
    }
  })

  it("[R1.7] are claimed, and looked at by a stop, in one statement each", async () => {
    const sandbox = await insertRow(rows, "ready")
    let statements = 0
    const counting: KyselyPlugin = {
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        statements += 1
        return result
      },
    }
    const db = store.db.withPlugin(counting)
    const counted = await openLeases({ db, clock, onFree: () => {} })
    onTestFinished(() => counted.close())
    statements = 0
    await counted.acquire({ sandbox, kind: "exec", source: "person", holder: "a" })
    expect(statements).toBe(1)
    expect(await openRows(db, clock).beginStop(sandbox, STOP)).toBe(false)
    expect(statements).toBe(2)
  })

  it("[R1.7] that yield keep a sandbox from Berth's own stops, and give way to a requested one", async () => {
    const sandbox = await insertRow(rows, "ready")
    const claim = { sandbox, kind: "session", holder: "a" } as const
    const use = await leases.acquire({ ...claim, source: "watcher", subject: "ses-1" })
    await leases.acquire({ ...claim, source: "session", subject: "ses-1", yields: true })
    expect(await rows.beginStop(sandbox, STOP)).toBe(false)
    expect(await rows.beginStopUnlessUsed(sandbox, STOP)).toBe(false)
    await leases.release(use)
    expect(freed).toEqual([sandbox])
    expect(await rows.beginStop(sandbox, STOP)).toBe(false)
    expect(await rows.beginStopUnlessUsed(sandbox, STOP)).toBe(true)
    expect(await leases.of(sandbox)).toEqual([])
  })

  it("[R1.9] are found by their source and subject, whatever their holder is called", async () => {
    const sandbox = await insertRow(rows, "ready")
    const claim = { sandbox, kind: "session", holder: "session ses-2" } as const
    const own = await leases.acquire({ ...claim, source: "session", subject: "ses-1" })
    await leases.acquire({ ...claim, source: "session", subject: "ses-2" })
    await leases.acquire({ ...claim, source: "sandbox", subject: "ses-1" })
    leases.close()
    leases = await start()
    expect(await leases.by(["session", "watcher"], "ses-1")).toMatchObject([{ id: own }])
    expect(await leases.by(["session"])).toHaveLength(2)
  })

  it("end with a sandbox that is stopped regardless of its use", async () => {
    const sandbox = await insertRow(rows, "ready")
    await leases.acquire({ sandbox, kind: "exec", source: "person", holder: "a" })
    expect(await rows.beginStopRegardless(sandbox, { cause: "ended", reason: "died" })).toBe(true)
    expect(await leases.of(sandbox)).toEqual([])
    expect(await rows.get(sandbox)).toMatchObject({
      phase: "stopping",
      stop: { cause: "ended", reason: "died" },
    })
  })

  it("are deleted late where the store refused that at their end", async () => {
    const sandbox = await insertRow(rows, "ready")
    await leases.acquire({ sandbox, kind: "preview", source: "person", holder: "a", ttlMs: TTL_MS })
    await sql`PRAGMA query_only = 1`.execute(store.db)
    await pass(2 * TTL_MS)
    expect(await leases.of(sandbox)).toHaveLength(1)
    await sql`PRAGMA query_only = 0`.execute(store.db)
    await pass(LEASE_TICK_MS)
    expect(await leases.of(sandbox)).toEqual([])
    expect(freed).toEqual([sandbox])
  })
})
