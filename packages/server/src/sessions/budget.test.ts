import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type PromptId, Slug } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import { sql } from "kysely"
import { expect, it } from "vitest"
import {
  partWithin,
  SANDBOX_BYTES,
  SANDBOX_BYTES_PER_SECOND,
  SESSION_BYTES,
  SPARE_BYTES,
  sandboxRoom,
} from "../events/output-budget.ts"
import { openRestFiles, REST_FILE_BYTES, REST_FILES } from "../events/rest-files.ts"
import { CROWDED_BYTES } from "../events/retention.ts"
import { systemClock } from "../sandboxes/state/clock.ts"
import { openRows as openSandboxRows } from "../sandboxes/state/rows.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { openStored } from "./stored.ts"

const AT = "2026-01-02T03:04:05.678Z"
const MIB = 1024 * 1024
const workspace = Slug.parse("app")

const setUp = async () => {
  const dataDir = makeDataDir()
  const store = await openForTest({ dataDir })
  const logs = join(dataDir, "logs")
  const rest = openRestFiles(logs)
  const stored = openStored({ store, clock: systemClock, logsDir: logs })
  const agent = AgentSpec.parse({ kind: "opencode" })
  const session = await stored.rows.create({ workspace, agent, onInterrupt: "wait", atMs: 1 })
  const sandbox = newId.sandbox()
  const configHash = ConfigHash.parse("0".repeat(64))
  await openSandboxRows(store.db, systemClock).insert({
    id: sandbox,
    workspace,
    configHash,
    mode: "fresh",
    phase: "ready",
  })
  const { id: prompt } = await stored.changes.accept(session.id, CreatePrompt.parse({ text: "go" }))
  await stored.changes.assign(prompt, sandbox)
  let last = 0
  /** Sends events as the sandbox does, and returns them, so that they can be sent again. */
  const say = async (...bodies: readonly EventBody[]): Promise<readonly Event[]> => {
    const events = bodies.map((body) => ({ sequence: ++last, at: AT, body }))
    await stored.events.take(sandbox, events)
    return events
  }
  /** Notes that the session holds so many bytes already. */
  const hold = (bytes: number) =>
    store.db
      .updateTable("sessions")
      .set({ event_bytes: bytes })
      .where("id", "=", session.id)
      .execute()
  const held = async () =>
    (await store.db.selectFrom("sessions").select("event_bytes").executeTakeFirstOrThrow())
      .event_bytes
  /** The bodies of all events, whose numbers are checked for gaps and repeats. */
  const bodies = async (): Promise<EventBody[]> => {
    const all: Event[] = []
    for (;;) {
      const page = await stored.log.read(session.id, all.at(-1)?.sequence ?? 0)
      if (page.length === 0) break
      all.push(...page.map(({ json }) => JSON.parse(json) as Event))
    }
    const first = all[0]?.sequence ?? 1
    expect(all.map(({ sequence }) => sequence)).toEqual(all.map((_, place) => first + place))
    return all.map(({ body }) => body)
  }
  const restLines = () =>
    readdirSync(join(logs, workspace))
      .sort()
      .flatMap((name) =>
        readFileSync(join(logs, workspace, name), "utf8")
          .trim()
          .split("\n"),
      )
      .map((line) => (JSON.parse(line) as Event).body)
  return {
    store,
    logs,
    ...stored,
    rest,
    session,
    sandbox,
    prompt,
    say,
    hold,
    held,
    bodies,
    restLines,
  }
}

const delta = (prompt: PromptId, text: string): EventBody => ({
  type: "message.delta",
  prompt,
  message: "m",
  text,
})
const state = (prompt: PromptId, to: "running" | "succeeded"): EventBody => ({
  type: "prompt.state",
  prompt,
  state: to,
})
const isCut = (body: EventBody) => body.type === "output.cut"

it("[R3.2] stores output up to the session's budget, the prompt's end, and how much is in which files instead", async () => {
  const { say, hold, bodies, prompt, restLines, log, session, logs, events, sandbox } =
    await setUp()
  await say(state(prompt, "running"), {
    type: "output.cut",
    prompt,
    missingBytes: 1,
    missingEvents: 1,
    files: "/etc/*",
  })
  await hold(SESSION_BYTES - 1_000)
  const said = [delta(prompt, "fits"), delta(prompt, "é".repeat(1_000)), delta(prompt, "b")]
  await say(...said)
  const again = await say(
    { type: "tool.completed", prompt, call: "1", failed: true, output: "x".repeat(2_000) },
    { type: "permission.asked", prompt, ask: "a", about: "go on?" },
  )
  await events.take(sandbox, again)
  await say(state(prompt, "succeeded"))
  const files = join(logs, workspace, `${session.id}.*.jsonl`)
  const stored = await bodies()
  expect(stored.slice(2).map(({ type }) => type)).toEqual([
    ...["message.delta", "output.cut", "message.delta"],
    ...["tool.completed", "permission.asked", "output.cut", "prompt.state"],
  ])
  expect(stored.find(({ type }) => type === "tool.completed")).toEqual({
    type: "tool.completed",
    prompt,
    call: "1",
    failed: true,
  })
  const told = stored.filter(isCut)
  expect(told[0]).toMatchObject({ prompt, missingEvents: 1, files })
  expect(told[1]).toMatchObject({ prompt, missingEvents: 2, files })
  expect(told[0]).toHaveProperty(
    "missingBytes",
    expect.toSatisfy((bytes) => bytes > 2_000),
  )
  expect(told[1]).toHaveProperty(
    "missingBytes",
    expect.toSatisfy((bytes) => bytes > 4_000),
  )
  expect(restLines()).toEqual([said[1], again[0]?.body])
  expect((await log.read(session.id, 4)).length).toBe(stored.length - 4)
})

it("holds at most the budget and twice its spare under a flood of output, warnings and asks", async () => {
  const { say, hold, held, bodies, prompt } = await setUp()
  await say(state(prompt, "running"))
  await hold(SESSION_BYTES)
  const text = "x".repeat(250_000)
  for (let round = 0; round < 10; round++)
    await say(...Array.from({ length: 4 }, () => delta(prompt, text)))
  expect(await held()).toBeLessThan(SESSION_BYTES + 10_000)
  // A cut is told when it begins and each time that it has doubled.
  expect((await bodies()).filter(isCut).length).toBeLessThan(6)
  await hold(SESSION_BYTES + SPARE_BYTES)
  await say({ type: "warning", prompt, message: text })
  await hold(SESSION_BYTES + 2 * SPARE_BYTES)
  await say({ type: "permission.asked", prompt, ask: "a", about: "x".repeat(16_000) })
  expect(await held()).toBeLessThan(SESSION_BYTES + 2 * SPARE_BYTES + 10_000)
  await say(state(prompt, "succeeded"))
  expect((await bodies()).at(-1)).toEqual(state(prompt, "succeeded"))
})

it("bounds the output of a sandbox, and gives it room again as time passes", async () => {
  const { say, store, sandbox, bodies, prompt } = await setUp()
  await say(state(prompt, "running"), delta(prompt, "before"))
  const used = () =>
    store.db
      .selectFrom("sandboxes")
      .select("said_bytes")
      .where("id", "=", sandbox)
      .executeTakeFirstOrThrow()
  expect((await used()).said_bytes).toBeGreaterThan(100)
  // Far in the future, so that the sandbox gets no room while the test runs.
  const said_at_ms = Date.now() + 3600_000
  await store.db.updateTable("sandboxes").set({ said_bytes: SANDBOX_BYTES, said_at_ms }).execute()
  await say(delta(prompt, "after"))
  expect((await bodies()).at(-1)).toMatchObject({ type: "output.cut", missingEvents: 1 })
  const room = sandboxRoom({ bytes: SANDBOX_BYTES, atMs: 0 }, 10_000)
  expect(room.leftBytes).toBe(10 * SANDBOX_BYTES_PER_SECOND)
  expect(sandboxRoom({ bytes: 5, atMs: 10_000 }, 0).leftBytes).toBe(SANDBOX_BYTES - 5)
})

it("never leaves out the state of a prompt", () => {
  const prompt = newId.prompt()
  expect(partWithin(state(prompt, "succeeded"), Number.MAX_SAFE_INTEGER)).toBeDefined()
  expect(partWithin(delta(prompt, ""), 0)).toBeDefined()
  expect(partWithin(delta(prompt, ""), 1)).toBeUndefined()
})

it("stores events though the output that is left out cannot be written to files", async () => {
  const { say, hold, bodies, prompt, logs } = await setUp()
  writeFileSync(logs, "in the way of the directory")
  await say(state(prompt, "running"))
  await hold(SESSION_BYTES)
  await say(delta(prompt, "lost"), state(prompt, "succeeded"))
  expect((await bodies()).slice(-2)).toMatchObject([
    { type: "output.cut", files: null },
    { type: "prompt.state", state: "succeeded" },
  ])
})

it("keeps the latest output that is left out in bounded files, and removes them with the workspace", async () => {
  const { rest, logs, session } = await setUp()
  const owner = { workspace, session: session.id }
  const line = `${"x".repeat(REST_FILE_BYTES / 2 - 1)}\n`
  let place = { file: 0, bytes: 0 }
  for (let count = 0; count < 2 * REST_FILES + 4; count++) {
    const before = place
    // The server dies before it has stored the place.
    await rest.write(owner, before, `${line.slice(2)}\n`)
    place = await rest.write(owner, before, line)
  }
  const names = readdirSync(join(logs, workspace))
  expect(names).toHaveLength(REST_FILES)
  for (const name of names) expect(statSync(join(logs, workspace, name)).size).toBe(REST_FILE_BYTES)
  expect(statSync(join(logs, workspace, names[0] ?? "")).mode & 0o777).toBe(0o600)
  await expect(rest.write({ ...owner, workspace: "../up" as Slug }, place, line)).rejects.toThrow()
  mkdirSync(join(logs, "other"))
  await rest.keepOnly(new Set(["other"]))
  expect(readdirSync(logs)).toEqual(["other"])
})

it("removes the oldest events of a session that holds too much, and gives the room back to the disk", async () => {
  const { store, log, session, held, bodies, say, prompt } = await setUp()
  await say(state(prompt, "running"), state(prompt, "succeeded"))
  const body: EventBody = { type: "warning", message: "x".repeat(200_000) }
  const batch = Array.from({ length: 26 }, () => ({ session: session.id, at: AT, body }))
  while ((await held()) <= CROWDED_BYTES)
    await store.db.transaction().execute((trx) => log.append(trx, batch))
  const { last_event } = await store.db
    .selectFrom("sessions")
    .select("last_event")
    .executeTakeFirstOrThrow()
  await log.removeBeyondSize()
  const kept = await bodies()
  expect(kept[0]).toMatchObject({ type: "gap" })
  expect(await held()).toBeLessThan(SESSION_BYTES / 2 + MIB)
  const { bytes } = await sql<{
    bytes: number
  }>`SELECT sum(octet_length(json)) AS bytes FROM events`
    .execute(store.db)
    .then(({ rows }) => rows[0] ?? { bytes: 0 })
  expect(Math.abs((await held()) - bytes)).toBeLessThan(10 * kept.length)
  expect((await log.read(session.id, last_event - 1)).map(({ sequence }) => sequence)).toEqual([
    last_event,
  ])
  await store.db.deleteFrom("events").execute()
  const spare = async () =>
    (await sql<{ freelist_count: number }>`PRAGMA freelist_count`.execute(store.db)).rows[0]
      ?.freelist_count ?? 0
  expect(await spare()).toBeGreaterThan(5_000)
  await store.compact()
  expect(await spare()).toBeLessThan(5_000)
})
