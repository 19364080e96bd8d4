import { abortable } from "@berth/host/abortable"
import type { Activity } from "@berth/protocol/activity"
import { CommandId } from "@berth/protocol/commands"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { TerminalId } from "@berth/protocol/terminals"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { openRows, type Rows } from "../state/rows.ts"
import { FakeClock } from "../testing/clock.ts"
import { Inside } from "../testing/inside.ts"
import { insertRow } from "../testing/rows.ts"
import { storeOfFile } from "../testing/store.ts"
import { type Activities, openActivities, UNWATCHED_TERMINAL_MS } from "./activities.ts"
import { LEASE_TICK_MS, type Leases, openLeases } from "./leases.ts"

const FIRST = CommandId.parse(`cmd-${"1".repeat(20)}`)
const SECOND = CommandId.parse(`cmd-${"2".repeat(20)}`)
const TERMINAL = TerminalId.parse(`term-${"3".repeat(20)}`)

const store = storeOfFile()
let clock: FakeClock
let rows: Rows
let leases: Leases
let activities: Activities
let inside: Inside
let freed: SandboxId[]

/** Opens leases and activities as a server does at its start. */
const start = async (): Promise<void> => {
  freed = []
  leases = await openLeases({ db: store.db, clock, onFree: (sandbox) => freed.push(sandbox) })
  const opened = leases
  activities = openActivities({
    onPrompts: () => {},
    clock,
    leases,
    query: (_, change, signal) => inside.answer(change, signal),
  })
  const over = activities
  onTestFinished(() => {
    over.close()
    opened.close()
  })
}

beforeEach(async () => {
  clock = new FakeClock()
  rows = openRows(store.db, clock)
  inside = new Inside()
  await start()
})

const holdersOf = async (sandbox: SandboxId) =>
  (await leases.of(sandbox)).map(({ kind, holder }) => `${kind} of ${holder}`)

const pass = async (ms: number): Promise<void> => {
  for (let passed = 0; passed < ms; passed += LEASE_TICK_MS) {
    clock.pass(LEASE_TICK_MS)
    await leases.expire()
  }
}

describe("the life in a sandbox", () => {
  it("[R1.7] keeps the sandbox in use for a background command until that ends", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST] })
    await activities.refresh(sandbox)
    expect(await holdersOf(sandbox)).toEqual([`exec of command ${FIRST}`])
    expect(activities.of(sandbox)).toEqual({ kind: "active", what: "1 command" })
    await pass(24 * 3600 * 1000)
    expect(await holdersOf(sandbox)).toEqual([`exec of command ${FIRST}`])
    inside.change({ commands: [] })
    await expect.poll(() => freed).toEqual([sandbox])
    expect(await holdersOf(sandbox)).toEqual([])
    expect(activities.of(sandbox)).toEqual({ kind: "none" })
  })

  it.each<[string, Partial<Activity>, string]>([
    ["a prompt", { prompts: [newId.prompt()] }, "prompt of running prompt pr-"],
    [
      "processes that a prompt left running",
      { leftProcesses: 2 },
      "session of processes left running",
    ],
    ["a terminal", { terminals: [{ id: TERMINAL, viewers: 1 }] }, "terminal of terminal"],
  ])("[R1.7] keeps the sandbox in use for %s until the end", async (_, living, holder) => {
    const sandbox = await insertRow(rows, "ready")
    inside.change(living)
    await activities.refresh(sandbox)
    expect(await holdersOf(sandbox)).toEqual([expect.stringContaining(holder)])
    inside.change({ prompts: [], leftProcesses: 0, terminals: [] })
    await expect.poll(() => freed).toEqual([sandbox])
  })

  it("[R1.7] always has a lease while one command or process follows another", async () => {
    const sandbox = await insertRow(rows, "draining")
    inside.change({ commands: [FIRST] })
    await activities.refresh(sandbox)
    inside.change({ commands: [SECOND] })
    await expect.poll(() => holdersOf(sandbox)).toEqual([`exec of command ${SECOND}`])
    inside.change({ commands: [], leftProcesses: 1 })
    await expect.poll(() => holdersOf(sandbox)).toEqual(["session of processes left running"])
    expect(freed).toEqual([])
  })

  it("has one lease for each command, though four callers look at once", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST, SECOND] })
    await Promise.all([1, 2, 3, 4].map(() => activities.refresh(sandbox)))
    expect(await holdersOf(sandbox)).toEqual([
      ...[`exec of command ${FIRST}`, `exec of command ${SECOND}`],
    ])
  })

  it("ignores an answer that a later one has overtaken", async () => {
    const sandbox = await insertRow(rows, "ready")
    const late = Promise.withResolvers<void>()
    const slow = openActivities({
      onPrompts: () => {},
      clock,
      leases,
      query: async (_, change, signal) => {
        const activity = await inside.answer(change, signal)
        if (activity.commands.length > 0) await late.promise
        return activity
      },
    })
    onTestFinished(() => slow.close())
    inside.change({ commands: [FIRST] })
    const overtaken = slow.refresh(sandbox)
    await expect.poll(() => inside.asked).toBe(1)
    inside.change({ commands: [] })
    await slow.refresh(sandbox)
    late.resolve()
    await overtaken
    expect(await holdersOf(sandbox)).toEqual([])
    expect(slow.of(sandbox)).toEqual({ kind: "none" })
  })

  it("[R1.7] keeps the sandbox in use for a terminal while that is watched, and for a time after", async () => {
    const sandbox = await insertRow(rows, "ready")
    const never = new Promise<never>(() => {})
    const asking = openActivities({
      onPrompts: () => {},
      clock,
      leases,
      // Only the test asks, so that nothing is asked while its time passes.
      query: (_, change, signal) =>
        change === undefined ? inside.answer(change, signal) : abortable(never, signal),
    })
    onTestFinished(() => asking.close())
    const seen = async (viewers: number) => {
      inside.change({ terminals: [{ id: TERMINAL, viewers }] })
      await asking.refresh(sandbox)
    }
    await seen(1)
    await pass(UNWATCHED_TERMINAL_MS - LEASE_TICK_MS)
    await seen(1)
    await pass(UNWATCHED_TERMINAL_MS - LEASE_TICK_MS)
    await seen(0)
    expect(await holdersOf(sandbox)).toEqual([`terminal of terminal ${TERMINAL}`])
    await pass(LEASE_TICK_MS)
    expect(await holdersOf(sandbox)).toEqual([])
    // An unwatched terminal that is still there gets no new lease.
    await seen(0)
    expect(await holdersOf(sandbox)).toEqual([])
    await seen(1)
    expect(await holdersOf(sandbox)).toEqual([`terminal of terminal ${TERMINAL}`])
  })

  it("leaves the leases of other sources alone, whatever their holders are called", async () => {
    const sandbox = await insertRow(rows, "ready")
    await leases.acquire({ sandbox, kind: "hold", source: "person", holder: `command ${FIRST}` })
    await leases.acquire({ sandbox, kind: "exec", source: "call", holder: "a running command" })
    await leases.acquire({ sandbox, kind: "prompt", source: "prompt", holder: newId.prompt() })
    await activities.refresh(sandbox)
    expect(await leases.of(sandbox)).toHaveLength(3)
  })

  it("is none in a sandbox that was just made, without asking", async () => {
    const sandbox = newId.sandbox()
    expect(activities.of(sandbox)).toEqual({ kind: "unknown" })
    activities.begin(sandbox)
    expect(activities.of(sandbox)).toEqual({ kind: "none" })
    expect(inside.asked).toBe(0)
  })

  it("[R1.9] keeps its leases after a restart, except that of a command that ended meanwhile", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST, SECOND] })
    await activities.refresh(sandbox)
    const [first] = await leases.of(sandbox)
    activities.close()
    leases.close()
    inside.change({ commands: [FIRST] })
    await start()
    expect(activities.of(sandbox)).toEqual({ kind: "unknown" })
    expect(await holdersOf(sandbox)).toHaveLength(2)
    await activities.query(sandbox)
    expect((await leases.of(sandbox)).map(({ id }) => id)).toEqual([first?.id])
    inside.change({ commands: [] })
    await expect.poll(() => freed).toEqual([sandbox])
  })

  it("[R1.10] is reported for a sandbox that the store does not know, and leased once it does", async () => {
    const sandbox = newId.sandbox()
    const terminals = [{ id: TERMINAL, viewers: 0 }]
    inside.change({ commands: [FIRST], terminals })
    expect(await activities.query(sandbox)).toEqual({
      kind: "active",
      what: "1 command, 1 terminal",
    })
    expect(await holdersOf(sandbox)).toEqual([])
    await insertRow(rows, "draining", { id: sandbox })
    await activities.query(sandbox)
    expect(await holdersOf(sandbox)).toEqual([
      ...[`exec of command ${FIRST}`, `terminal of terminal ${TERMINAL}`],
    ])
  })

  describe("of a sandbox that does not answer", () => {
    it("is silent, with the time of that silence", async () => {
      const sandbox = await insertRow(rows, "ready")
      inside.silence()
      expect(await activities.query(sandbox)).toEqual({ kind: "silent", forMs: 0, queriedMs: 0 })
      clock.pass(5_000)
      clock.jump(3600 * 1000)
      expect(activities.of(sandbox)).toEqual({ kind: "silent", forMs: 5_000, queriedMs: 5_000 })
      expect(await activities.query(sandbox)).toEqual({
        kind: "silent",
        forMs: 5_000,
        queriedMs: 0,
      })
      inside.silence(false)
      expect(await activities.query(sandbox)).toEqual({ kind: "none" })
      inside.silence()
      clock.pass(1_000)
      expect(await activities.query(sandbox)).toEqual({ kind: "silent", forMs: 0, queriedMs: 0 })
    })

    it("[R1.7] is to be asked again, and keeps its leases", async () => {
      const sandbox = await insertRow(rows, "ready")
      inside.change({ commands: [FIRST] })
      await activities.refresh(sandbox)
      inside.silence()
      await expect.poll(() => activities.of(sandbox)).toEqual({ kind: "unknown" })
      expect(await holdersOf(sandbox)).toEqual([`exec of command ${FIRST}`])
      // The sandbox is followed again as soon as it answers.
      inside.silence(false)
      await activities.query(sandbox)
      inside.change({ commands: [] })
      await expect.poll(() => freed).toEqual([sandbox])
    })

    it("is to be asked again when a request may have left something running", async () => {
      const sandbox = await insertRow(rows, "ready")
      activities.begin(sandbox)
      inside.silence()
      await activities.refresh(sandbox)
      expect(activities.of(sandbox)).toEqual({ kind: "unknown" })
    })
  })

  it("is asked for at a bounded rate where the sandbox always answers at once", async () => {
    const sandbox = await insertRow(rows, "ready")
    const begunMs = performance.now()
    const flood = setInterval(() => inside.change({ commands: [FIRST] }), 1)
    onTestFinished(() => clearInterval(flood))
    inside.change({ commands: [FIRST] })
    await activities.refresh(sandbox)
    await expect.poll(() => inside.asked).toBeGreaterThan(4)
    expect(performance.now() - begunMs).toBeGreaterThan(400)
  })

  it("is asked for no more when the sandbox is gone", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST] })
    await activities.refresh(sandbox)
    await expect.poll(() => inside.asked).toBe(2)
    activities.forget(sandbox)
    inside.change({ commands: [] })
    expect(activities.of(sandbox)).toEqual({ kind: "unknown" })
    expect([inside.asked, freed]).toEqual([2, []])
  })
})
