import { MAX_PROMPT_CHARS, MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type PromptId, type SandboxId, Slug } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { Prompt } from "@berth/protocol/session"
import { MAX_QUEUED_PROMPTS } from "@berth/protocol/session-limits"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import { sql } from "kysely"
import { describe, expect, it, onTestFinished } from "vitest"
import { PAGE_BYTES, STEP_EVENTS } from "../events/pages.ts"
import { BATCH_EVENTS } from "../events/retention.ts"
import { systemClock } from "../sandboxes/state/clock.ts"
import { openRows as openSandboxRows } from "../sandboxes/state/rows.ts"
import { openLeases } from "../sandboxes/use/leases.ts"
import { disbelieve } from "../store/disbelieve.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { promptLeaseRequest } from "./assign.ts"
import { MAX_CONTINUED } from "./interruptions.ts"
import { openStored } from "./stored.ts"

const AT = "2026-01-02T03:04:05.678Z"
const opencode = AgentSpec.parse({ kind: "opencode" })
const sent = (text: string, more: object = {}) => CreatePrompt.parse({ text, ...more })

const setUp = async (onInterrupt: "wait" | "continue" = "wait") => {
  const store = await openForTest({ dataDir: makeDataDir() })
  const stored = openStored({ store, clock: systemClock })
  const workspace = Slug.parse("app")
  const session = await stored.rows.create({
    workspace,
    agent: opencode,
    onInterrupt,
    atMs: 1,
  })
  const addSandbox = async (slug = workspace): Promise<SandboxId> => {
    const id = newId.sandbox()
    const configHash = ConfigHash.parse("0".repeat(64))
    const row = { id, workspace: slug, configHash, mode: "fresh", phase: "draining" } as const
    await openSandboxRows(store.db, systemClock).insert(row)
    return id
  }
  /** Accepts a prompt, and gives it to a sandbox. */
  const given = async (sandbox: SandboxId, text = "go"): Promise<PromptId> => {
    const { id } = await stored.changes.accept(session.id, sent(text))
    expect(await stored.changes.assign(id, sandbox)).toBe(true)
    return id
  }
  const bodies = async (): Promise<EventBody[]> =>
    (await stored.log.read(session.id, 0)).map(({ json }) => (JSON.parse(json) as Event).body)
  const stateOf = async (prompt: PromptId) =>
    (await stored.rows.prompts(session.id)).find(({ id }) => id === prompt)?.state
  return { store, ...stored, session, workspace, addSandbox, given, bodies, stateOf }
}

const event = (sequence: number, body: EventBody): Event => ({ sequence, at: AT, body })
const state = (
  prompt: PromptId,
  to: "running" | "succeeded" | "failed" | "interrupted",
): EventBody => ({
  type: "prompt.state",
  prompt,
  state: to,
})
const delta = (prompt: PromptId, text: string): EventBody => ({
  type: "message.delta",
  prompt,
  message: "m",
  text,
})

describe("an event of a sandbox", () => {
  it("[R3.2] is stored once, in order, however often it is sent", async () => {
    const { events, addSandbox, given, bodies, stateOf, log, session } = await setUp()
    const sandbox = await addSandbox()
    const prompt = await given(sandbox)
    const said = [state(prompt, "running"), delta(prompt, "a"), delta(prompt, "b")].map(
      (body, place) => event(place + 1, body),
    )
    await events.take(sandbox, said.slice(0, 2))
    await events.take(sandbox, said)
    await Promise.all([events.take(sandbox, said), events.take(sandbox, said)])
    expect(await events.lastSeen(sandbox)).toBe(3)
    await events.take(sandbox, [event(4, state(prompt, "succeeded"))])
    expect(await stateOf(prompt)).toBe("succeeded")
    const kept = await log.read(session.id, 0)
    expect(kept.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5])
    expect((await bodies()).slice(1)).toEqual([
      ...said.map(({ body }) => body),
      state(prompt, "succeeded"),
    ])
  })

  it("[R3.4] is ignored for a prompt of another sandbox, and for one that has ended", async () => {
    const { events, addSandbox, given, bodies, changes, stateOf } = await setUp()
    const [own, other] = [await addSandbox(), await addSandbox()]
    const prompt = await given(own)
    await events.take(other, [event(1, state(prompt, "succeeded")), event(2, delta(prompt, "!"))])
    expect(await stateOf(prompt)).toBe("queued")
    expect(await events.ended([prompt])).toEqual([])
    await changes.end(prompt, { state: "interrupted", reason: "gone" })
    expect(await events.ended([prompt])).toEqual([prompt])
    await events.take(own, [event(1, delta(prompt, "late")), event(2, state(prompt, "succeeded"))])
    expect(await stateOf(prompt)).toBe("interrupted")
    expect((await bodies()).map(({ type }) => type)).toEqual(["prompt.state", "prompt.state"])
    expect(await events.lastSeen(own)).toBe(2)
  })

  it("[R3.3] is kept of a prompt that was stopped without its word, until it says that the prompt has ended", async () => {
    const { events, addSandbox, given, bodies, changes, rows, session } = await setUp()
    const [sandbox, other] = [await addSandbox(), await addSandbox()]
    const prompt = await given(sandbox)
    const { id: next } = await changes.accept(session.id, sent("next"))
    await events.take(sandbox, [event(1, delta(prompt, "a"))])
    await changes.requestStop(session.id, prompt)
    expect(await changes.noteOverdue({ id: prompt, sandbox })).toEqual([])
    await changes.endOverdue(prompt, "it is silent")
    const stopped: EventBody = {
      type: "prompt.state",
      prompt,
      state: "stopped",
      reason: "it is silent",
    }
    expect(await rows.next(session.id)).toMatchObject({ id: prompt, state: "stopped" })
    expect((await rows.get(session.id)).pending).toEqual([next])
    expect(await rows.busy()).toEqual([session.id])
    await events.take(other, [event(1, delta(prompt, "!")), event(2, state(prompt, "succeeded"))])
    await events.take(sandbox, [
      event(2, state(prompt, "running")),
      event(3, delta(prompt, "b")),
      event(4, state(prompt, "interrupted")),
      event(5, delta(prompt, "c")),
    ])
    expect(await rows.next(session.id)).toMatchObject({ id: next })
    expect((await bodies()).slice(2)).toEqual([delta(prompt, "a"), stopped, delta(prompt, "b")])
  })

  it.each([
    ["failed", "stopped"],
    ["interrupted", "stopped"],
    ["succeeded", "succeeded"],
  ] as const)(
    "[R3.3] ends a prompt whose processes are being ended for its stop: %s is %s",
    async (said, to) => {
      const { events, addSandbox, given, changes, rows, session, stateOf } = await setUp("continue")
      const sandbox = await addSandbox()
      const prompt = await given(sandbox)
      await changes.requestStop(session.id, prompt)
      await changes.noteOverdue({ id: prompt, sandbox })
      await events.take(sandbox, [event(1, state(prompt, said))])
      expect(await stateOf(prompt)).toBe(to)
      await changes.endOverdue(prompt, "it is silent")
      expect([await stateOf(prompt), await rows.next(session.id)]).toEqual([to, undefined])
    },
  )

  it("reaches the session whose prompt the sandbox has when it is of no prompt, and no other", async () => {
    const { events, addSandbox, given, bodies } = await setUp()
    const sandbox = await addSandbox()
    const elsewhere = await addSandbox(Slug.parse("other"))
    const ready: EventBody = { type: "boot.ready", atMs: 1 }
    await events.take(sandbox, [event(1, ready)])
    expect(await bodies()).toEqual([])
    await given(sandbox)
    await events.take(elsewhere, [event(1, ready)])
    await events.take(sandbox, [event(2, ready)])
    expect((await bodies()).slice(1)).toEqual([ready])
  })

  it("[R1.6] about a phase reaches a session only where the sandbox had its last prompt", async () => {
    const { events, addSandbox, given, bodies, changes } = await setUp()
    const [before, now] = [await addSandbox(), await addSandbox()]
    await changes.end(await given(before), { state: "interrupted" })
    await given(now)
    const phase = (sandbox: SandboxId): EventBody => ({
      type: "sandbox.phase",
      sandbox,
      phase: "draining",
      reason: "changed",
    })
    await events.tell(before, [phase(before)])
    await events.tell(now, [phase(now)])
    expect((await bodies()).slice(3)).toEqual([phase(now)])
  })

  it("is stored though another sandbox's event at the same time cannot be", async () => {
    const { store, events, addSandbox, given, bodies } = await setUp()
    const [good, bad] = [await addSandbox(), await addSandbox()]
    const [one, two] = [await given(good, "one"), await given(bad, "two")]
    await sql`CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.json LIKE '%broken%'
      BEGIN SELECT RAISE(ABORT, 'it cannot be stored'); END`.execute(store.db)
    const results = await Promise.allSettled([
      events.take(good, [event(1, delta(one, "y"))]),
      events.take(bad, [event(1, delta(two, "broken"))]),
    ])
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected"])
    expect((await bodies()).slice(2)).toEqual([delta(one, "y")])
    expect(await events.lastSeen(bad)).toBe(0)
  })
})

describe("a prompt", () => {
  it("[R3.1] is accepted once under its key, in its place, until as many wait as may", async () => {
    const { changes, session, rows } = await setUp()
    const [one, two] = await Promise.all([
      changes.accept(session.id, sent("x", { key: "k" })),
      changes.accept(session.id, sent("x", { key: "k" })),
    ])
    expect(two.id).toBe(one.id)
    await expect(changes.accept(session.id, sent("y", { key: "k" }))).rejects.toMatchObject({
      code: "prompt.key_used",
    })
    for (let number = 2; number <= MAX_QUEUED_PROMPTS; number++)
      expect(await changes.accept(session.id, sent("x"))).toMatchObject({ number })
    await expect(changes.accept(session.id, sent("x"))).rejects.toMatchObject({
      code: "session.full",
    })
    expect((await rows.next(session.id))?.id).toBe(one.id)
    await changes.close(session.id)
    await expect(changes.accept(session.id, sent("x"))).rejects.toMatchObject({
      code: "session.closed",
    })
  })

  it("is stopped by the change that closes its session", async () => {
    const { changes, session, addSandbox, given, rows, stateOf } = await setUp()
    const running = await given(await addSandbox())
    const { id: waiting } = await changes.accept(session.id, sent("x"))
    await changes.close(session.id)
    expect((await rows.get(session.id)).state).toBe("closed")
    expect(await stateOf(waiting)).toBe("stopped")
    expect(await rows.next(session.id)).toMatchObject({ id: running, isStopRequested: true })
    await changes.close(session.id)
    expect((await rows.get(session.id)).pending).toEqual([running])
  })

  it("[R3.3] keeps its sandbox from a stop by the sandbox's own lease, until it has ended in the store", async () => {
    const { store, addSandbox, given, changes } = await setUp()
    const sandbox = await addSandbox()
    const prompt = await given(sandbox)
    const leases = await openLeases({ db: store.db, clock: systemClock, onFree: () => {} })
    onTestFinished(() => leases.close())
    await leases.acquire({
      sandbox,
      kind: "prompt",
      source: "sandbox",
      subject: prompt,
      holder: `running prompt ${prompt}`,
    })
    const stop = () =>
      openSandboxRows(store.db, systemClock).beginStopUnlessUsed(sandbox, {
        cause: "person",
        reason: "of a test",
      })
    expect(await stop()).toBe(false)
    await changes.end(prompt, { state: "stopped" })
    expect(await stop()).toBe(true)
  })

  it("[R3.3] keeps its sandbox from a stop of another prompt only until it was stopped itself, confirmed or not", async () => {
    const { store, addSandbox, given, changes } = await setUp()
    const sandbox = await addSandbox()
    const prompt = await given(sandbox)
    const leases = await openLeases({ db: store.db, clock: systemClock, onFree: () => {} })
    onTestFinished(() => leases.close())
    await leases.acquire({ ...promptLeaseRequest(prompt), sandbox })
    const rows = openSandboxRows(store.db, systemClock)
    const stop = () =>
      rows.beginStopUnlessUsed(sandbox, { cause: "person", reason: "of a test" }, ["pr-other"])
    expect(await stop()).toBe(false)
    await changes.noteOverdue({ id: prompt, sandbox })
    expect(await stop()).toBe(false)
    await changes.endOverdue(prompt, "it is silent")
    expect(await stop()).toBe(true)
  })

  it("is given to one sandbox only, and to none once it is stopped", async () => {
    const { changes, session, addSandbox, stateOf } = await setUp()
    const [one, other] = [await addSandbox(), await addSandbox()]
    const { id } = await changes.accept(session.id, sent("x"))
    expect(await changes.assign(id, one)).toBe(true)
    expect(await changes.assign(id, other)).toBe(false)
    const { id: waiting } = await changes.accept(session.id, sent("y"))
    expect(await changes.requestStop(session.id, undefined)).toEqual([id, waiting])
    expect(await stateOf(waiting)).toBe("stopped")
    // The prompt's sandbox has it, and reports when it has ended.
    expect(await stateOf(id)).toBe("queued")
    expect(await changes.assign(waiting, other)).toBe(false)
  })

  it("is continued before the others when it was interrupted, up to a limit", async () => {
    const { events, addSandbox, changes, session, rows, bodies } = await setUp("continue")
    const sandbox = await addSandbox()
    await changes.accept(session.id, sent("first"))
    const { id: last } = await changes.accept(session.id, sent("last"))
    let sequence = 0
    for (let times = 0; times <= MAX_CONTINUED; times++) {
      const next = await rows.next(session.id)
      expect(next?.id).not.toBe(last)
      await changes.assign(next?.id as PromptId, sandbox)
      await events.take(sandbox, [
        event(++sequence, state(next?.id as PromptId, "running")),
        event(++sequence, state(next?.id as PromptId, "interrupted")),
      ])
    }
    expect((await rows.next(session.id))?.id).toBe(last)
    expect((await bodies()).filter(({ type }) => type === "warning")).toHaveLength(1)
  })

  it("has a reason that is cut to its limit, however long its sandbox's is", async () => {
    const { events, addSandbox, given, session, rows } = await setUp("continue")
    const sandbox = await addSandbox()
    const prompt = await given(sandbox)
    const reason = "x".repeat(MAX_PROMPT_CHARS)
    const said: EventBody = { type: "prompt.state", prompt, state: "interrupted", reason }
    await events.take(sandbox, [event(1, said)])
    const [interrupted, next] = await rows.prompts(session.id)
    expect(interrupted?.reason).toHaveLength(MAX_REASON_CHARS)
    expect(Prompt.parse({ ...next, waitsFor: null })).toMatchObject({ continues: prompt })
  })
})

it("[R1.9] interrupts the prompts of a database that was put back, and drops their attachments", async () => {
  const { store, changes, session, rows, stateOf } = await setUp()
  const attachments = [{ name: "log.txt", content: "aGVsbG8=" }]
  const { id } = await changes.accept(session.id, sent("x", { attachments }))
  expect(await rows.attachments(id)).toHaveLength(1)
  await store.db.transaction().execute((trx) => disbelieve(trx, Date.now()))
  expect(await stateOf(id)).toBe("interrupted")
  expect(await rows.attachments(id)).toEqual([])
})

describe("the log", () => {
  it("[R3.2] gives old and new events, each once, to three readers", async () => {
    const { log, session, changes } = await setUp()
    const over = new AbortController()
    const say = (count: number) =>
      changes.tell(session.id, { type: "warning", message: String(count) })
    const read = async (after: number, until: number): Promise<number[]> => {
      const seen: number[] = []
      for await (const page of log.follow(session.id, after, over.signal)) {
        for (const [, id] of Buffer.concat(page.pieces)
          .toString()
          .matchAll(/^id: (\d+)$/gm))
          seen.push(Number(id))
        expect(page.last).toBe(seen.at(-1))
        if (seen.at(-1) === until) return seen
      }
      return seen
    }
    for (let count = 1; count <= 700; count++) await say(count)
    const readers = [read(0, 800), read(699, 800), read(750, 800)]
    for (let count = 701; count <= 800; count++) await say(count)
    for (const [reader, after] of [0, 699, 750].entries())
      expect(await readers[reader]).toEqual(
        Array.from({ length: 800 - after }, (_, place) => after + place + 1),
      )
    const idle = read(800, 0)
    over.abort()
    expect(await idle).toEqual([])
  })

  it("[R3.2] is streamed with the number and the type of each event, whatever its text holds", async () => {
    const { store, log, session } = await setUp()
    const texts = ["plain", "two\nlines", "'quoted'", "ünï 😀", "\u0000", "x".repeat(300_000)]
    const events = texts.map((message) => {
      const body: EventBody = { type: "warning", message }
      return { session: session.id, at: AT, body }
    })
    await store.db.transaction().execute((trx) => log.append(trx, events))
    const over = new AbortController()
    let streamed = ""
    for await (const { pieces, last } of log.follow(session.id, 0, over.signal)) {
      streamed += Buffer.concat(pieces).toString()
      if (last === texts.length) break
    }
    const frames = events.map(({ at, body }, place) => {
      const json = JSON.stringify({ sequence: place + 1, at, body })
      return `id: ${place + 1}\nevent: warning\ndata: ${json}\n\n`
    })
    expect(streamed).toBe(frames.join(""))
  })

  it("[R3.2] is read in pages that are bounded, however long its events are", async () => {
    const { store, log, session } = await setUp()
    const body: EventBody = { type: "warning", message: "x".repeat(200_000) }
    const long = Array.from({ length: 3 * STEP_EVENTS }, () => ({
      session: session.id,
      at: AT,
      body,
    }))
    await store.db.transaction().execute((trx) => log.append(trx, long))
    const pages: number[] = []
    for (let seen = 0; seen < long.length; ) {
      const page = await log.read(session.id, seen)
      expect(page[0]?.sequence).toBe(seen + 1)
      seen += page.length
      pages.push(page.reduce((chars, { json }) => chars + json.length, 0))
    }
    expect(Math.max(...pages)).toBeLessThan(PAGE_BYTES + STEP_EVENTS * 256 * 1024)
  })

  it("ages by the server's clock, whatever time a sandbox gives its events", async () => {
    const { events, addSandbox, given, log, bodies } = await setUp()
    const sandbox = await addSandbox()
    const prompt = await given(sandbox)
    const at = "1970-01-01T00:00:00.000Z"
    await events.take(sandbox, [{ ...event(1, delta(prompt, "done in secret")), at }])
    await events.take(sandbox, [{ ...event(2, delta(prompt, "long ago")), at }])
    await log.removeBefore(Date.now() - 60_000)
    expect((await bodies()).map(({ type }) => type)).not.toContain("gap")
  })

  it("has one gap in place of old events", async () => {
    const { log, session, changes, bodies } = await setUp()
    for (let count = 1; count <= 5; count++)
      await changes.tell(session.id, { type: "warning", message: String(count) })
    await log.removeBefore(0)
    expect(await bodies()).toHaveLength(5)
    await log.removeBefore(Date.now() + 1_000)
    await log.removeBefore(Date.now() + 2_000)
    await changes.tell(session.id, { type: "warning", message: "new" })
    const kept = await log.read(session.id, 0)
    expect(kept.map(({ sequence, type }) => [sequence, type])).toEqual([
      [5, "gap"],
      [6, "warning"],
    ])
  })

  it("is removed in parts with turns for other work, and has a gap wherever a removal ended", async () => {
    const { store, log, session } = await setUp()
    const body: EventBody = { type: "warning", message: "old" }
    const old = Array.from({ length: 3 * BATCH_EVENTS }, () => ({
      session: session.id,
      at: AT,
      body,
    }))
    await store.db.transaction().execute((trx) => log.append(trx, old))
    await sql`CREATE TRIGGER refuse BEFORE DELETE ON events WHEN OLD.sequence > ${sql.lit(2 * BATCH_EVENTS)}
      BEGIN SELECT RAISE(ABORT, 'it cannot be removed'); END`.execute(store.db)
    await expect(log.removeBefore(Date.now() + 1_000)).rejects.toThrow()
    const [gap, next] = await log.read(session.id, 0)
    expect(gap).toMatchObject({ type: "gap" })
    expect(gap?.sequence).toBeGreaterThan(BATCH_EVENTS)
    expect(next?.sequence).toBe((gap?.sequence ?? 0) + 1)

    await sql`DROP TRIGGER refuse`.execute(store.db)
    let turns = 0
    let isOver = false
    const takeTurn = () => {
      turns++
      if (!isOver) setImmediate(takeTurn)
    }
    setImmediate(takeTurn)
    await log.removeBefore(Date.now() + 1_000)
    isOver = true
    expect(turns).toBeGreaterThan(1)
    expect(await log.read(session.id, 0)).toMatchObject([{ sequence: old.length, type: "gap" }])
  })
})
