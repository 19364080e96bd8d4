import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { CreatePrompt } from "@berth/protocol/sessions"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it, onTestFinished } from "vitest"
import { NO_KEYS } from "../keys/keys.ts"
import { createLogger } from "../logging/logger.ts"
import { Secrets } from "../logging/secrets.ts"
import type { Sandboxes, UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { systemClock } from "../sandboxes/state/clock.ts"
import { makeDataDir } from "../store/testing/data-dir.ts"
import { openForTest } from "../store/testing/open-for-test.ts"
import { openSessions } from "./sessions.ts"
import { openStored } from "./stored.ts"

const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets: new Secrets(),
  destination: { write: () => {} },
})

/** Sets up a session with OpenCode whose workspace can get another agent, and whose prompts find no sandbox. */
const setUp = async (kept?: SandboxId) => {
  let spec = WorkspaceSpec.parse({ slug: "app", agent: { kind: "opencode" } })
  const use: Partial<UsedSandboxes> = {
    endUses: async () => {},
    usedFor: async () => kept,
    useOf: (_, __, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason))
      }),
    useOnly: () => Promise.reject(new BerthError("bridge.down", "not now")),
  }
  const workspaces: Partial<Sandboxes["workspaces"]> = { get: async () => spec }
  const sandboxes = { use, running: {}, workspaces } as Partial<Sandboxes> as Sandboxes
  const store = await openForTest({ dataDir: makeDataDir() })
  const sessions = await openSessions({
    store,
    stored: openStored({ store, clock: systemClock }),
    sandboxes,
    keys: NO_KEYS,
    log,
    clock: systemClock,
    keepEventsMs: null,
    endProcesses: async () => undefined,
    at: () => {},
    sessionKeepMs: 0,
  })
  onTestFinished(() => sessions.closeAll())
  const workspace = Slug.parse("app")
  const { id } = await sessions.create(
    { workspace, replace: false, onInterrupt: "wait" },
    new AbortController().signal,
  )
  const change = () => {
    spec = WorkspaceSpec.parse({ slug: "app", agent: { kind: "codex" } })
  }
  return { sessions, id, change }
}

it("[R3.1] returns the accepted prompt when it is sent again, though the agent has changed since", async () => {
  const { sessions, id, change } = await setUp()
  const sent = CreatePrompt.parse({ text: "go", key: "k" })
  const accepted = await sessions.prompt(id, sent)
  change()
  expect((await sessions.prompt(id, sent)).id).toBe(accepted.id)
  await expect(sessions.prompt(id, { ...sent, key: "other" })).rejects.toMatchObject({
    code: "agent.changed",
  })
})

it("[R1.6] accepts a prompt for the agent in the sandbox that the session keeps, though the workspace has another", async () => {
  const { sessions, id, change } = await setUp(newId.sandbox())
  change()
  expect(await sessions.prompt(id, CreatePrompt.parse({ text: "go" }))).toMatchObject({
    state: "queued",
  })
})

it("shows what prompts wait for: the next one for its sandbox, the others for the one before", async () => {
  const { sessions, id } = await setUp()
  const first = await sessions.prompt(id, CreatePrompt.parse({ text: "one" }))
  const second = await sessions.prompt(id, CreatePrompt.parse({ text: "two" }))
  const behind = {
    code: "prompt.earlier",
    message: `${first.id} of the same session comes first`,
    since: second.createdAt,
  }
  expect(second.waitsFor).toEqual(behind)
  const starting = { code: "sandbox.starting", message: "the sandbox of app is made or woken" }
  await expect
    .poll(() => sessions.prompts(id))
    .toMatchObject([{ waitsFor: starting }, { waitsFor: behind }])
  expect((await sessions.get(id)).waitsFor).toMatchObject(starting)
  expect((await sessions.list())[0]?.waitsFor).toMatchObject(starting)
  expect((await sessions.transcript(id)).turns[0]?.prompt.waitsFor).toMatchObject(starting)
  await sessions.stop(id, {})
  expect((await sessions.prompts(id)).map(({ waitsFor }) => waitsFor)).toEqual([null, null])
  expect((await sessions.get(id)).waitsFor).toBeNull()
})
