import { setTimeout as pause } from "node:timers/promises"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type PromptId, type SandboxId, type SessionId, Slug } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import { systemClock } from "../sandboxes/state/clock.ts"
import { openRows as openSandboxRows } from "../sandboxes/state/rows.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { openStored } from "./stored.ts"

const AT = "2026-01-02T03:04:05.678Z"
const workspace = Slug.parse("app")

/** Sets up the store, with two sandboxes that have a prompt of a session each. */
const setUp = async () => {
  const store = await openForTest({ dataDir: makeDataDir() })
  const stored = openStored({ store, clock: systemClock })
  const { rows, changes, events, log } = stored
  const rung: SessionId[] = []
  const add = async () => {
    const sandbox = newId.sandbox()
    const configHash = ConfigHash.parse("0".repeat(64))
    const row = { id: sandbox, workspace, configHash, mode: "fresh", phase: "draining" } as const
    await openSandboxRows(store.db, systemClock).insert(row)
    const agent = AgentSpec.parse({ kind: "shell" })
    const { id: session } = await rows.create({ workspace, agent, onInterrupt: "wait", atMs: 1 })
    const { id: prompt } = await changes.accept(session, CreatePrompt.parse({ text: "go" }))
    await changes.assign(prompt, sandbox)
    const bodies = async (): Promise<EventBody[]> =>
      (await log.read(session, 0)).slice(1).map(({ json }) => (JSON.parse(json) as Event).body)
    return { sandbox, session, prompt, bodies }
  }
  const made = { one: await add(), two: await add() }
  stored.onChange((session) => void rung.push(session))
  return { store, events, rows, log, ...made, rung }
}

const said = (bodies: readonly EventBody[], first = 1): Event[] =>
  bodies.map((body, place) => ({ sequence: first + place, at: AT, body }))
const delta = (prompt: PromptId, text: string): EventBody => ({
  type: "message.delta",
  prompt,
  message: "m",
  text,
})
const state = (prompt: PromptId, to: "queued" | "running" | "succeeded"): EventBody => ({
  type: "prompt.state",
  prompt,
  state: to,
})
const cut = (prompt: PromptId): EventBody => ({
  type: "output.cut",
  prompt,
  missingBytes: 1,
  missingEvents: 1,
  files: null,
})

it("[R3.2] stores each event once and in order, where those of several sandboxes are stored together", async () => {
  const { events, one, two } = await setUp()
  const a = delta(one.prompt, "a")
  const b = delta(one.prompt, "b")
  const c = delta(one.prompt, "c")
  const running = state(one.prompt, "running")
  await Promise.all([
    events.take(one.sandbox, said([a, running, b])),
    events.take(two.sandbox, said([delta(two.prompt, "x")])),
    events.take(one.sandbox, said([b, c], 3)),
  ])
  expect(await one.bodies()).toEqual([a, running, b, c])
  expect(await two.bodies()).toEqual([delta(two.prompt, "x")])
  expect(await events.lastSeen(one.sandbox)).toBe(4)
  expect(await events.lastSeen(two.sandbox)).toBe(1)
})

it("drops what a sandbox has no say about, and counts it as seen", async () => {
  const { events, rows, one, two } = await setUp()
  const { prompt } = one
  const bodies = [
    cut(prompt),
    state(prompt, "queued"),
    delta(two.prompt, "!"),
    state(two.prompt, "succeeded"),
    state(prompt, "succeeded"),
    delta(prompt, "late"),
    state(prompt, "running"),
  ]
  await events.take(one.sandbox, said(bodies))
  expect(await one.bodies()).toEqual([state(prompt, "succeeded")])
  expect(await two.bodies()).toEqual([])
  expect(await rows.next(two.session)).toMatchObject({ id: two.prompt, state: "queued" })
  expect(await events.lastSeen(one.sandbox)).toBe(bodies.length)
})

it("drops the events of a sandbox that is not known, and stores those of others", async () => {
  const { events, one } = await setUp()
  const unknown: SandboxId = newId.sandbox()
  await Promise.all([
    events.take(unknown, said([delta(one.prompt, "!")])),
    events.take(one.sandbox, said([delta(one.prompt, "a")])),
  ])
  expect(await one.bodies()).toEqual([delta(one.prompt, "a")])
  expect(await events.lastSeen(unknown)).toBe(0)
})

it("tells of a change of prompts once it is stored, and of no other event", async () => {
  const { events, one, two, rung } = await setUp()
  await events.take(one.sandbox, said([delta(one.prompt, "a")]))
  expect(rung).toEqual([])
  await events.take(two.sandbox, said([state(two.prompt, "running")]))
  expect(rung).toEqual([two.session])
})

it("[R3.2] wakes those who follow a session when its events are stored", async () => {
  const { events, log, one } = await setUp()
  const over = new AbortController()
  const pages = log.follow(one.session, 1, over.signal)[Symbol.asyncIterator]()
  const page = pages.next()
  await pause(0)
  await events.take(one.sandbox, said([delta(one.prompt, "a")]))
  expect((await page).value?.last).toBe(2)
  over.abort()
})

it("takes what a sandbox says in one transaction from the same room", async () => {
  const { store, events, one } = await setUp()
  const bytesOf = async () =>
    (
      await store.db
        .selectFrom("sandboxes")
        .select("said_bytes")
        .where("id", "=", one.sandbox)
        .executeTakeFirstOrThrow()
    ).said_bytes
  const text = "x".repeat(10_000)
  await Promise.all([
    events.take(one.sandbox, said([delta(one.prompt, text)])),
    events.take(one.sandbox, said([delta(one.prompt, text)], 2)),
  ])
  expect(await bytesOf()).toBeGreaterThan(20_000)
})
