import type { Activity } from "@berth/protocol/activity"
import { CommandId } from "@berth/protocol/commands"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { TerminalId } from "@berth/protocol/terminals"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { abortable } from "../../host/abortable.ts"
import { openRows, type Rows } from "../state/rows.ts"
import { FakeClock } from "../testing/clock.ts"
import { Inside } from "../testing/inside.ts"
import { insertRow } from "../testing/rows.ts"
import { storeOfFile } from "../testing/store.ts"
import { LEASE_TICK_MS, type Leases, openLeases } from "./leases.ts"
import { type Lives, openLives, UNWATCHED_TERMINAL_MS } from "./lives.ts"

const FIRST = CommandId.parse(`cmd-${"1".repeat(20)}`)
const SECOND = CommandId.parse(`cmd-${"2".repeat(20)}`)
const TERMINAL = TerminalId.parse(`term-${"3".repeat(20)}`)

const store = storeOfFile()
let clock: FakeClock
let rows: Rows
let leases: Leases
let lives: Lives
let inside: Inside
let freed: SandboxId[]

/** As a server that starts with what an earlier one left. */
const start = async (): Promise<void> => {
  freed = []
  leases = await openLeases({ db: store.db, clock, onFree: (sandbox) => freed.push(sandbox) })
  const { close } = leases
  lives = openLives({
    onPrompts: () => {},
    clock,
    leases,
    ask: (_, change, signal) => inside.answer(change, signal),
  })
  const over = lives
  onTestFinished(() => {
    over.close()
    close()
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

describe("what lives in a sandbox", () => {
  it("[R1.7] a command in the background keeps it until it ends", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST] })
    await lives.look(sandbox)
    expect(await holdersOf(sandbox)).toEqual([`exec of command ${FIRST}`])
    expect(lives.of(sandbox)).toEqual({ kind: "alive", what: "1 command" })
    await pass(24 * 3600 * 1000)
    expect(await holdersOf(sandbox)).toEqual([`exec of command ${FIRST}`])
    inside.change({ commands: [] })
    await expect.poll(() => freed).toEqual([sandbox])
    expect(await holdersOf(sandbox)).toEqual([])
    expect(lives.of(sandbox)).toEqual({ kind: "none" })
  })

  it.each<[string, Partial<Activity>, string]>([
    ["a prompt", { prompts: [newId.prompt()] }, "prompt of running prompt pr-"],
    ["what a prompt left running", { leftProcesses: 2 }, "session of processes left running"],
    ["a terminal", { terminals: [{ id: TERMINAL, viewers: 1 }] }, "terminal of terminal"],
  ])("[R1.7] %s keeps it until it ends", async (_, living, holder) => {
    const sandbox = await insertRow(rows, "ready")
    inside.change(living)
    await lives.look(sandbox)
    expect(await holdersOf(sandbox)).toEqual([expect.stringContaining(holder)])
    inside.change({ prompts: [], leftProcesses: 0, terminals: [] })
    await expect.poll(() => freed).toEqual([sandbox])
  })

  it("[R1.7] is never without a lease while one thing follows another", async () => {
    const sandbox = await insertRow(rows, "draining")
    inside.change({ commands: [FIRST] })
    await lives.look(sandbox)
    inside.change({ commands: [SECOND] })
    await expect.poll(() => holdersOf(sandbox)).toEqual([`exec of command ${SECOND}`])
    inside.change({ commands: [], leftProcesses: 1 })
    await expect.poll(() => holdersOf(sandbox)).toEqual(["session of processes left running"])
    expect(freed).toEqual([])
  })

  it("has one lease for each thing, however many ask at once", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST, SECOND] })
    await Promise.all([1, 2, 3, 4].map(() => lives.look(sandbox)))
    expect(await holdersOf(sandbox)).toEqual([
      ...[`exec of command ${FIRST}`, `exec of command ${SECOND}`],
    ])
  })

  it("does not come back by an answer that a later one has overtaken", async () => {
    const sandbox = await insertRow(rows, "ready")
    const late = Promise.withResolvers<void>()
    const slow = openLives({
      onPrompts: () => {},
      clock,
      leases,
      ask: async (_, change, signal) => {
        const activity = await inside.answer(change, signal)
        if (activity.commands.length > 0) await late.promise
        return activity
      },
    })
    onTestFinished(() => slow.close())
    inside.change({ commands: [FIRST] })
    const overtaken = slow.look(sandbox)
    await expect.poll(() => inside.asked).toBe(1)
    inside.change({ commands: [] })
    await slow.look(sandbox)
    late.resolve()
    await overtaken
    expect(await holdersOf(sandbox)).toEqual([])
    expect(slow.of(sandbox)).toEqual({ kind: "none" })
  })

  it("[R1.7] a terminal keeps it while it is watched, and for a time after that", async () => {
    const sandbox = await insertRow(rows, "ready")
    const never = new Promise<never>(() => {})
    const asking = openLives({
      onPrompts: () => {},
      clock,
      leases,
      // Only the test asks, so that nobody does while its time goes by.
      ask: (_, change, signal) =>
        change === undefined ? inside.answer(change, signal) : abortable(never, signal),
    })
    onTestFinished(() => asking.close())
    const seen = async (viewers: number) => {
      inside.change({ terminals: [{ id: TERMINAL, viewers }] })
      await asking.look(sandbox)
    }
    await seen(1)
    await pass(UNWATCHED_TERMINAL_MS - LEASE_TICK_MS)
    await seen(1)
    await pass(UNWATCHED_TERMINAL_MS - LEASE_TICK_MS)
    await seen(0)
    expect(await holdersOf(sandbox)).toEqual([`terminal of terminal ${TERMINAL}`])
    await pass(LEASE_TICK_MS)
    expect(await holdersOf(sandbox)).toEqual([])
    // That it is still there is no reason to begin again.
    await seen(0)
    expect(await holdersOf(sandbox)).toEqual([])
    await seen(1)
    expect(await holdersOf(sandbox)).toEqual([`terminal of terminal ${TERMINAL}`])
  })

  it("leaves alone what others hold, whatever they call themselves", async () => {
    const sandbox = await insertRow(rows, "ready")
    await leases.acquire({ sandbox, kind: "hold", source: "person", holder: `command ${FIRST}` })
    await leases.acquire({ sandbox, kind: "exec", source: "call", holder: "a running command" })
    await leases.acquire({ sandbox, kind: "prompt", source: "prompt", holder: newId.prompt() })
    await lives.look(sandbox)
    expect(await leases.of(sandbox)).toHaveLength(3)
  })

  it("of one that has just been made is nothing, without asking", async () => {
    const sandbox = newId.sandbox()
    expect(lives.of(sandbox)).toEqual({ kind: "not asked" })
    lives.born(sandbox)
    expect(lives.of(sandbox)).toEqual({ kind: "none" })
    expect(inside.asked).toBe(0)
  })

  it("[R1.9] after a restart keeps its leases, and what ended meanwhile loses its own", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST, SECOND] })
    await lives.look(sandbox)
    const [first] = await leases.of(sandbox)
    lives.close()
    leases.close()
    inside.change({ commands: [FIRST] })
    await start()
    expect(lives.of(sandbox)).toEqual({ kind: "not asked" })
    expect(await holdersOf(sandbox)).toHaveLength(2)
    await lives.ask(sandbox)
    expect((await leases.of(sandbox)).map(({ id }) => id)).toEqual([first?.id])
    inside.change({ commands: [] })
    await expect.poll(() => freed).toEqual([sandbox])
  })

  it("[R1.10] is believed of one that the store does not know, and has its leases when it does", async () => {
    const sandbox = newId.sandbox()
    const terminals = [{ id: TERMINAL, viewers: 0 }]
    inside.change({ commands: [FIRST], terminals })
    expect(await lives.ask(sandbox)).toEqual({ kind: "alive", what: "1 command, 1 terminal" })
    expect(await holdersOf(sandbox)).toEqual([])
    await insertRow(rows, "draining", { id: sandbox })
    await lives.ask(sandbox)
    expect(await holdersOf(sandbox)).toEqual([
      ...[`exec of command ${FIRST}`, `terminal of terminal ${TERMINAL}`],
    ])
  })

  describe("of one that does not answer", () => {
    it("is open, for as long as it has been silent", async () => {
      const sandbox = await insertRow(rows, "ready")
      inside.silence()
      expect(await lives.ask(sandbox)).toEqual({ kind: "silent", forMs: 0, askedMs: 0 })
      clock.pass(5_000)
      clock.jump(3600 * 1000)
      expect(lives.of(sandbox)).toEqual({ kind: "silent", forMs: 5_000, askedMs: 5_000 })
      expect(await lives.ask(sandbox)).toEqual({ kind: "silent", forMs: 5_000, askedMs: 0 })
      inside.silence(false)
      expect(await lives.ask(sandbox)).toEqual({ kind: "none" })
      inside.silence()
      clock.pass(1_000)
      expect(await lives.ask(sandbox)).toEqual({ kind: "silent", forMs: 0, askedMs: 0 })
    })

    it("[R1.7] is not known any more, and what it had keeps its lease", async () => {
      const sandbox = await insertRow(rows, "ready")
      inside.change({ commands: [FIRST] })
      await lives.look(sandbox)
      inside.silence()
      await expect.poll(() => lives.of(sandbox)).toEqual({ kind: "not asked" })
      expect(await holdersOf(sandbox)).toEqual([`exec of command ${FIRST}`])
      // It is followed again as soon as it answers.
      inside.silence(false)
      await lives.ask(sandbox)
      inside.change({ commands: [] })
      await expect.poll(() => freed).toEqual([sandbox])
    })

    it("is not taken for nothing when a request may have left something in it", async () => {
      const sandbox = await insertRow(rows, "ready")
      lives.born(sandbox)
      inside.silence()
      await lives.look(sandbox)
      expect(lives.of(sandbox)).toEqual({ kind: "not asked" })
    })
  })

  it("keeps nobody busy in one that always answers at once", async () => {
    const sandbox = await insertRow(rows, "ready")
    const begunMs = performance.now()
    const flood = setInterval(() => inside.change({ commands: [FIRST] }), 1)
    onTestFinished(() => clearInterval(flood))
    inside.change({ commands: [FIRST] })
    await lives.look(sandbox)
    await expect.poll(() => inside.asked).toBeGreaterThan(4)
    expect(performance.now() - begunMs).toBeGreaterThan(400)
  })

  it("is asked for no more when it is gone", async () => {
    const sandbox = await insertRow(rows, "ready")
    inside.change({ commands: [FIRST] })
    await lives.look(sandbox)
    await expect.poll(() => inside.asked).toBe(2)
    lives.forget(sandbox)
    inside.change({ commands: [] })
    expect(lives.of(sandbox)).toEqual({ kind: "not asked" })
    expect([inside.asked, freed]).toEqual([2, []])
  })
})
