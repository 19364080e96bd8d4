import type { EventBody } from "@berth/protocol/event"
import { newId, Slug } from "@berth/protocol/ids"
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
const agent = AgentSpec.parse({ kind: "opencode" })

/** Sets up a session whose prompt runs in a sandbox. */
const setUp = async () => {
  const store = await openForTest({ dataDir: makeDataDir() })
  const { rows, changes, events } = openStored({ store, clock: systemClock })
  const { id: session } = await rows.create({ workspace, agent, onInterrupt: "wait", atMs: 1 })
  const sandbox = newId.sandbox()
  const configHash = ConfigHash.parse("0".repeat(64))
  await openSandboxRows(store.db, systemClock).insert({
    id: sandbox,
    workspace,
    configHash,
    mode: "fresh",
    phase: "ready",
  })
  const { id: prompt } = await changes.accept(session, CreatePrompt.parse({ text: "go" }))
  await changes.assign(prompt, sandbox)
  let last = 0
  const say = async (...bodies: readonly EventBody[]) =>
    await events.take(
      sandbox,
      bodies.map((body) => ({ sequence: ++last, at: AT, body })),
    )
  await say({ type: "prompt.state", prompt, state: "running" })
  const names = async () => (await rows.view(session)).asks.map(({ ask }) => ask)
  return { rows, session, prompt, say, names }
}

it("shows the asks of an agent until they are answered", async () => {
  const { rows, session, prompt, say, names } = await setUp()
  expect(await names()).toEqual([])
  await say(
    { type: "permission.asked", prompt, ask: "a1", about: "run rm" },
    { type: "question.asked", prompt, ask: "a2", question: "Which?", choices: ["red", "blue"] },
  )
  const asks = [
    { kind: "permission", prompt, ask: "a1", about: "run rm", choices: [] },
    { kind: "question", prompt, ask: "a2", about: "Which?", choices: ["red", "blue"] },
  ]
  expect((await rows.view(session)).asks).toMatchObject(asks)
  expect((await rows.list())[0]?.asks).toMatchObject(asks)
  await say({ type: "permission.answered", prompt, ask: "a1", allowed: false })
  expect(await names()).toEqual(["a2"])
  await say({ type: "question.answered", prompt, ask: "a2", answer: null })
  expect(await names()).toEqual([])
})

it("shows no ask of a prompt that has ended without an answer", async () => {
  const { prompt, say, names } = await setUp()
  await say(
    { type: "permission.asked", prompt, ask: "a1", about: "run rm" },
    { type: "prompt.state", prompt, state: "stopped" },
  )
  expect(await names()).toEqual([])
})
