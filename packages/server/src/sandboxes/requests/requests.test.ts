import { newId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it, onTestFinished } from "vitest"
import { FakeClock } from "../testing/clock.ts"
import { MemoryBackend } from "../testing/memory-backend.ts"
import { openMemoryHost } from "../testing/memory-host.ts"
import { storeOfFile } from "../testing/store.ts"
import { OLD_CONFIG, POLICY } from "../testing/world.ts"
import { thinkingLease } from "./session-leases.ts"

const { signal } = new AbortController()
const store = storeOfFile()
const app = Slug.parse("app")

it("forgets a removed workspace, though a caller waits for its next sandbox", async () => {
  let waiting: Promise<unknown> | undefined
  const backend = new MemoryBackend((call) => {
    if (call === "stop")
      waiting ??= sandboxes.use.useOf(
        app,
        { kind: "prompt", source: "call", holder: "the next prompt" },
        signal,
      )
    waiting?.catch(() => {})
  })
  const sandboxes = await openMemoryHost({
    db: store.db,
    backend,
    clock: new FakeClock(),
    policy: POLICY,
  })
  try {
    const spec = WorkspaceSpec.parse({ slug: app })
    const { sandbox } = await sandboxes.workspaces.up(spec, { mode: "fresh" }, signal)
    await sandboxes.use.useOf(app, { kind: "prompt", source: "call", holder: "a prompt" }, signal)
    await sandboxes.requests.remove(sandbox, { force: true })
    await expect(waiting).rejects.toMatchObject({ code: "not_found" })
    await expect(sandboxes.workspaces.get(app)).rejects.toMatchObject({ code: "not_found" })
    expect(await sandboxes.views.list(signal)).toEqual([])
  } finally {
    await sandboxes.close()
  }
})

it("stops a stale sandbox that a session keeps when a person asks, and makes no other", async () => {
  const sandboxes = await openMemoryHost({
    db: store.db,
    backend: new MemoryBackend(),
    clock: new FakeClock(),
    policy: POLICY,
  })
  onTestFinished(() => sandboxes.close())
  const slug = Slug.parse("kept")
  const { sandbox } = await sandboxes.workspaces.up(
    WorkspaceSpec.parse({ slug }),
    { mode: "fresh" },
    signal,
  )
  await sandboxes.use.resume(sandbox, thinkingLease(newId.session(), 60_000))
  // Berth has been upgraded since. The workspace has not changed.
  await store.db
    .updateTable("sandboxes")
    .set({ config_hash: OLD_CONFIG })
    .where("id", "=", sandbox)
    .execute()
  await sandboxes.reconcile({ dryRun: false })
  expect(await sandboxes.views.get(sandbox, signal)).toMatchObject({ phase: "draining" })
  await sandboxes.requests.stop(sandbox, { force: false })
  const stopped = store.db.selectFrom("sandboxes").selectAll().where("workspace", "=", slug)
  expect(await stopped.execute()).toMatchObject([
    { id: sandbox, phase: "gone", stop_cause: "person", stop_reason: "a person stopped it" },
  ])
})

it("refuses an agent that nothing holds to its permissions, and does not store its workspace", async () => {
  const sandboxes = await openMemoryHost({
    db: store.db,
    backend: new MemoryBackend(),
    clock: new FakeClock(),
    policy: POLICY,
  })
  onTestFinished(() => sandboxes.close())
  const slug = Slug.parse("unheld")
  const agent = { kind: "acp", command: ["some-agent", "acp"], permissions: "deny" } as const
  await expect(
    sandboxes.workspaces.up(WorkspaceSpec.parse({ slug, agent }), { mode: "fresh" }, signal),
  ).rejects.toMatchObject({
    code: "agent.unheld",
    message:
      "some-agent acp decides itself what it asks for, so nothing holds it to --permissions deny",
  })
  await expect(sandboxes.workspaces.get(slug)).rejects.toMatchObject({ code: "not_found" })
  for (const held of [
    { ...agent, mode: "careful" },
    { ...agent, permissions: "allow" },
  ])
    await sandboxes.workspaces.save(WorkspaceSpec.parse({ slug, agent: held }), {}, signal)
})
