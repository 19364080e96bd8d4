import { MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import type { EventBody } from "@berth/protocol/event"
import { newId, type PromptId, Slug } from "@berth/protocol/ids"
import type { OnInterrupt, PromptState } from "@berth/protocol/session"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import type { Transaction } from "kysely"
import { describe, expect, it } from "vitest"
import { storeOfFile } from "../sandboxes/testing/store.ts"
import type { Database } from "../store/database.ts"
import { insertPrompt, openRows } from "./rows.ts"
import { Transitions } from "./transitions.ts"

const AT = "2026-01-02T03:04:05.678Z"
const LATER = "2026-01-02T03:05:00.000Z"
const NOW = "2026-02-03T04:05:06.789Z"
const sandbox = newId.sandbox()
const store = storeOfFile()

/** Sets up a session with one prompt, and a list of the events that its transitions tell. */
const setUp = async (row: object = {}, onInterrupt: OnInterrupt = "wait") => {
  const told: { readonly at: string; readonly body: EventBody }[] = []
  const transitions = new Transitions({
    log: {
      append: async (_, events) => void told.push(...events.map(({ at, body }) => ({ at, body }))),
    },
    clock: { now: () => Date.parse(NOW) },
  })
  const rows = openRows(store.db)
  const agent = AgentSpec.parse({ kind: "opencode" })
  const { id: session } = await rows.create({
    workspace: Slug.parse("app"),
    agent,
    onInterrupt,
    atMs: 1,
  })
  const within = <Result>(work: (trx: Transaction<Database>) => Promise<Result>) =>
    store.db.transaction().execute(work)
  const add = async (changes: object) => {
    const attachments = [{ name: "log.txt", content: "aGVsbG8=" }]
    const sent = CreatePrompt.parse({ text: "go", attachments })
    const to = await rows.get(session)
    const { id } = await within(async (trx) => {
      const { prompt } = await insertPrompt(trx, to, sent, { atMs: 1 })
      await trx.updateTable("prompts").set(changes).where("id", "=", prompt.id).execute()
      return prompt
    })
    return id
  }
  const prompt = await add({ sandbox, ...row })
  const prompts = () => rows.prompts(session)
  const noted = (of: PromptId = prompt) =>
    store.db
      .selectFrom("prompts")
      .select(["state", "stop_requested", "stop_overdue"])
      .where("id", "=", of)
      .executeTakeFirstOrThrow()
  return { transitions, rows, session, prompt, add, within, prompts, noted, told }
}

const stateOf = (prompt: PromptId, state: PromptState, reason?: string): EventBody => ({
  type: "prompt.state",
  prompt,
  state,
  ...(reason !== undefined && { reason }),
})

describe("the report that a prompt runs", () => {
  it("is told with its time, once", async () => {
    const { transitions, prompt, within, prompts, told } = await setUp()
    for (const at of [AT, LATER])
      await within((trx) => transitions.move(trx, prompt, { state: "running", at }))
    expect(await prompts()).toMatchObject([{ state: "running", startedAt: AT, endedAt: null }])
    expect(told).toEqual([{ at: AT, body: stateOf(prompt, "running") }])
  })

  it("changes nothing of a prompt that has ended", async () => {
    const { transitions, prompt, within, prompts, told } = await setUp({ state: "stopped" })
    await within((trx) => transitions.move(trx, prompt, { state: "running", at: AT }))
    expect(await prompts()).toMatchObject([{ state: "stopped", startedAt: null }])
    expect(told).toEqual([])
  })
})

describe("the end of a prompt", () => {
  it("is told with its reason and its time, and drops the attachments", async () => {
    const { transitions, rows, prompt, within, prompts, told } = await setUp()
    const move = { state: "failed", reason: "no", at: AT } as const
    await within((trx) => transitions.move(trx, prompt, move))
    expect(await prompts()).toMatchObject([{ state: "failed", reason: "no", endedAt: AT }])
    expect(await rows.attachments(prompt)).toEqual([])
    expect(told).toEqual([{ at: AT, body: stateOf(prompt, "failed", "no") }])
  })

  it("is told with as much of its reason as there is room for", async () => {
    const { transitions, prompt, within, told } = await setUp()
    const reason = "x".repeat(MAX_REASON_CHARS)
    const move = { state: "failed", reason: `${reason}x`, at: AT } as const
    await within((trx) => transitions.move(trx, prompt, move))
    expect(told).toEqual([{ at: AT, body: stateOf(prompt, "failed", reason) }])
  })

  it("is now, where no time is given", async () => {
    const { transitions, prompt, within, prompts, told } = await setUp()
    const ending = { state: "succeeded" } as const
    await within((trx) => transitions.end(trx, prompt, ending, { isConfirmed: true }))
    expect(await prompts()).toMatchObject([{ state: "succeeded", reason: null, endedAt: NOW }])
    expect(told).toEqual([{ at: NOW, body: stateOf(prompt, "succeeded") }])
  })

  it("is the first one, whatever comes later", async () => {
    const { transitions, prompt, within, prompts, told } = await setUp()
    for (const state of ["succeeded", "failed"] as const)
      await within((trx) => transitions.move(trx, prompt, { state, at: AT }))
    expect((await prompts()).map(({ state }) => state)).toEqual(["succeeded"])
    expect(told).toHaveLength(1)
  })

  it.each([
    ["failed", "failed"],
    ["interrupted", "interrupted"],
  ] as const)("keeps its word where the stop is not overdue (%s)", async (said, to) => {
    const { transitions, prompt, within, noted } = await setUp({ stop_requested: 1 })
    await within((trx) => transitions.move(trx, prompt, { state: said, at: AT }))
    expect((await noted()).state).toBe(to)
  })

  it("[R3.3] leaves an overdue stop open until it is confirmed", async () => {
    const { transitions, prompt, within, noted, told } = await setUp({
      stop_requested: 1,
      stop_overdue: 1,
    })
    const end = (isConfirmed: boolean) =>
      within((trx) => transitions.end(trx, prompt, { state: "stopped" }, { isConfirmed }))
    await end(false)
    expect(await noted()).toMatchObject({ state: "stopped", stop_overdue: 1 })
    await end(true)
    expect(await noted()).toMatchObject({ state: "stopped", stop_overdue: 0 })
    expect(told).toHaveLength(1)
  })
})

describe("an interrupted prompt", () => {
  const interrupted = { state: "interrupted", at: AT } as const

  it("is continued by one that names the reason", async () => {
    const { transitions, prompt, within, prompts, told } = await setUp({}, "continue")
    const move = { ...interrupted, reason: "its sandbox ended" }
    await within((trx) => transitions.move(trx, prompt, move))
    const [, next] = await prompts()
    expect(next).toMatchObject({
      state: "queued",
      continues: prompt,
      createdAt: NOW,
      sandbox: null,
      text: "You were interrupted: its sandbox ended. Look at what you have done already, then go on where you were.",
    })
    expect(told).toEqual([
      { at: AT, body: stateOf(prompt, "interrupted", "its sandbox ended") },
      { at: NOW, body: stateOf(next?.id as PromptId, "queued") },
    ])
  })

  it("is continued without a reason, too", async () => {
    const { transitions, prompt, within, prompts } = await setUp({}, "continue")
    await within((trx) => transitions.move(trx, prompt, interrupted))
    const [, next] = await prompts()
    expect(next?.text).toContain("You were interrupted: for a reason that is not known. Look")
  })

  it.each([
    ["the session is to wait", {}, "wait", false],
    ["somebody asked for its stop", { stop_requested: 1 }, "continue", false],
    ["the session is closed", {}, "continue", true],
  ] as const)("is not continued if %s", async (_, row, onInterrupt, isClosed) => {
    const { transitions, session, prompt, within, prompts } = await setUp(row, onInterrupt)
    const closing = { state: isClosed ? "closed" : "open" } as const
    await store.db.updateTable("sessions").set(closing).where("id", "=", session).execute()
    await within((trx) => transitions.move(trx, prompt, interrupted))
    expect((await prompts()).map(({ state }) => state)).toEqual(["interrupted"])
  })
})

describe("a stop", () => {
  it("[R3.3] ends a prompt without a sandbox, and is noted of one that has one", async () => {
    const { transitions, prompt, add, within, noted, told } = await setUp()
    const waiting = await add({ sandbox: null })
    await within((trx) => transitions.requestStop(trx, [prompt, waiting]))
    expect(await noted()).toEqual({ state: "queued", stop_requested: 1, stop_overdue: 0 })
    expect(await noted(waiting)).toMatchObject({ state: "stopped", stop_requested: 1 })
    expect(told).toEqual([{ at: NOW, body: stateOf(waiting, "stopped") }])
  })

  it("comes with the closing of a session, for all its prompts", async () => {
    const { transitions, rows, session, prompt, add, within, noted } = await setUp()
    const waiting = await add({ sandbox: null })
    await within((trx) => transitions.closeSession(trx, session))
    expect(await rows.get(session)).toMatchObject({ state: "closed", pending: [prompt] })
    expect((await noted()).stop_requested).toBe(1)
    expect((await noted(waiting)).state).toBe("stopped")
  })
})

it("appends events of the server's own in their order, with the time", async () => {
  const { transitions, session, prompt, within, told } = await setUp()
  const bodies = ["one", "two"].map((message) => ({ type: "warning", prompt, message }) as const)
  await within((trx) => transitions.append(trx, session, bodies))
  expect(told).toEqual(bodies.map((body) => ({ at: NOW, body })))
})
