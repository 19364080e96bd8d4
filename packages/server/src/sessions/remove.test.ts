import { newId, Slug } from "@berth/protocol/ids"
import { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import { BATCH_EVENTS } from "../events/retention.ts"
import { systemClock } from "../sandboxes/state/clock.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { BATCH_PROMPTS, removeRows, requireIdle, untilIdle } from "./remove.ts"
import { openStored } from "./stored.ts"

const setUp = async () => {
  const store = await openForTest({ dataDir: makeDataDir() })
  const stored = openStored({ store, clock: systemClock })
  const create = () =>
    stored.rows.create({
      workspace: Slug.parse("app"),
      agent: AgentSpec.parse({ kind: "shell" }),
      onInterrupt: "wait",
      atMs: 1,
    })
  const accept = (session: Awaited<ReturnType<typeof create>>) =>
    stored.changes.accept(session.id, CreatePrompt.parse({ text: "x" }))
  const counts = async () => {
    const of = async (table: "events" | "prompts" | "sessions") =>
      (await store.db.selectFrom(table).selectAll().execute()).length
    return {
      events: await of("events"),
      prompts: await of("prompts"),
      sessions: await of("sessions"),
    }
  }
  return { store, ...stored, create, accept, counts }
}

it("removes a session with more prompts and events than go in one step, and leaves the others", async () => {
  const { store, changes, rows, create, accept, counts } = await setUp()
  const other = await create()
  await accept(other)
  const before = await counts()
  const session = await create()
  for (let count = 0; count <= BATCH_PROMPTS; count++) {
    const { id } = await accept(session)
    await changes.requestStop(session.id, id)
  }
  for (let count = 0; count <= BATCH_EVENTS; count++)
    await changes.tell(session.id, { type: "warning", message: `${count}` })
  await changes.close(session.id)
  await removeRows(store, session.id)
  expect(await counts()).toEqual(before)
  await expect(rows.get(session.id)).rejects.toMatchObject({ code: "session.unknown" })
  await expect(removeRows(store, session.id)).rejects.toMatchObject({ code: "session.unknown" })
})

it("refuses a session with a prompt that waits, and waits until a stopped prompt has ended", async () => {
  const { changes, rows, create, accept } = await setUp()
  const session = await create()
  const { id } = await accept(session)
  await changes.assign(id, newId.sandbox())
  await expect(requireIdle(rows, session.id)).rejects.toMatchObject({
    code: "session.busy",
    message: `a prompt of ${session.id} runs or waits`,
  })
  await changes.close(session.id)
  const idle = untilIdle(rows, session.id)
  await changes.end(id, { state: "stopped" })
  await idle
})

it("[R3.3] refuses while a stopped prompt may still run", async () => {
  const { changes, rows, create, accept } = await setUp()
  const session = await create()
  const { id } = await accept(session)
  const sandbox = newId.sandbox()
  await changes.assign(id, sandbox)
  await changes.close(session.id)
  await changes.noteOverdue({ id, sandbox })
  await changes.endOverdue(id, "it is silent")
  await expect(requireIdle(rows, session.id)).rejects.toMatchObject({
    code: "session.busy",
    message: `a prompt of ${session.id} runs or waits`,
  })
  const idle = untilIdle(rows, session.id)
  await changes.end(id, { state: "stopped" })
  await idle
})
