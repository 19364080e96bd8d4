import { Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import { FakeClock } from "./testing/clock.ts"
import { MemoryBackend } from "./testing/memory-backend.ts"
import { openMemoryHost } from "./testing/memory-host.ts"
import { storeOfFile } from "./testing/store.ts"
import { POLICY } from "./testing/world.ts"

const { signal } = new AbortController()
const store = storeOfFile()
const app = Slug.parse("app")

it("a workspace that is removed is gone, though somebody waits for its next sandbox", async () => {
  let waiting: Promise<unknown> | undefined
  const backend = new MemoryBackend((call) => {
    if (call === "stop")
      waiting ??= sandboxes.useOf(app, { kind: "prompt", holder: "the next prompt" }, signal)
    waiting?.catch(() => {})
  })
  const sandboxes = await openMemoryHost({
    ...{ db: store.db, backend, clock: new FakeClock(), policy: POLICY },
  })
  try {
    const spec = WorkspaceSpec.parse({ slug: app })
    const { sandbox } = await sandboxes.up(spec, { mode: "fresh" }, signal)
    await sandboxes.useOf(app, { kind: "prompt", holder: "a prompt" }, signal)
    await sandboxes.remove(sandbox, { force: true })
    await expect(waiting).rejects.toMatchObject({ code: "not_found" })
    await expect(sandboxes.workspace(app)).rejects.toMatchObject({ code: "not_found" })
    expect(await sandboxes.list(signal)).toEqual([])
  } finally {
    await sandboxes.close()
  }
})
