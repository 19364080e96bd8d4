import { CommandId } from "@berth/protocol/commands"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { sql } from "kysely"
import { beforeEach, describe, expect, it } from "vitest"
import type { Sandboxes } from "./sandboxes.ts"
import { openWorkspaces } from "./state/workspaces.ts"
import { FakeClock } from "./testing/clock.ts"
import { Inside } from "./testing/inside.ts"
import { type BeforeCall, MemoryBackend } from "./testing/memory-backend.ts"
import { openMemoryHost } from "./testing/memory-host.ts"
import { storeOfFile } from "./testing/store.ts"
import { POLICY } from "./testing/world.ts"
import { LEASE_TICK_MS } from "./use/leases.ts"

const COMMAND = CommandId.parse(`cmd-${"1".repeat(20)}`)
const { signal } = new AbortController()
const store = storeOfFile()
let backend: MemoryBackend
let before: BeforeCall
let inside: Inside
let clock: FakeClock
let sandboxes: Sandboxes

const start = (on = backend): Promise<Sandboxes> =>
  openMemoryHost({ db: store.db, backend: on, clock, policy: POLICY, inside: () => inside })

beforeEach(async () => {
  for (const table of ["leases", "sandboxes", "workspaces", "decisions"] as const)
    await store.db.deleteFrom(table).execute()
  before = () => {}
  inside = new Inside()
  clock = new FakeClock()
  backend = new MemoryBackend((call, sandbox) => before(call, sandbox))
  sandboxes = await start()
  return () => sandboxes.close()
})

const specOf = (slug: string, version = 1): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug, environment: { VERSION: String(version) } })
const phaseOf = async (sandbox: SandboxId) => (await sandboxes.views.get(sandbox, signal)).phase
const usersOf = async (sandbox: SandboxId) =>
  (await sandboxes.views.get(sandbox, signal)).leases.map(({ holder }) => holder)
const make = async (slug: string): Promise<SandboxId> => {
  const { sandbox } = await sandboxes.workspaces.up(specOf(slug), { mode: "fresh" }, signal)
  await expect.poll(() => phaseOf(sandbox), { interval: 1 }).toBe("ready")
  return sandbox
}
/** Ends a call that leaves something running. */
const leave = async (sandbox: SandboxId): Promise<void> => {
  const use = await sandboxes.use.begin(
    sandbox,
    { kind: "exec", source: "call", holder: "a call" },
    signal,
  )
  await use.leave()
  await use.end()
}

describe("a mishap", () => {
  it("[R1.6] of time does not stop a sandbox as idle that was just asked for", async () => {
    const sandbox = await make("app")
    clock.pass((POLICY.stopAfterMs ?? 0) - 1)
    expect(await sandboxes.workspaces.up(specOf("app"), { mode: "fresh" }, signal)).toEqual({
      sandbox,
      made: false,
    })
    clock.pass(2)
    await sandboxes.reconcile({ dryRun: false })
    expect(["ready", "paused"]).toContain(await phaseOf(sandbox))
    clock.pass(POLICY.stopAfterMs ?? 0)
    await sandboxes.reconcile({ dryRun: false })
    expect(await phaseOf(sandbox)).toBe("gone")
  })

  it("[R1.7] of the store at the end of a use does not keep the sandbox for ever", async () => {
    const sandbox = await make("app")
    const use = await sandboxes.use.begin(
      sandbox,
      { kind: "exec", source: "call", holder: "a call" },
      signal,
    )
    await sql`CREATE TRIGGER full BEFORE DELETE ON leases
      BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`.execute(store.db)
    await use.end()
    expect(await usersOf(sandbox)).toEqual(["a call"])
    await sql`DROP TRIGGER full`.execute(store.db)
    await expect.poll(() => usersOf(sandbox), { timeout: 10 * LEASE_TICK_MS }).toEqual([])
  })

  it("[R1.6] of an engine that loses sight of a living sandbox does not end it", async () => {
    const sandbox = await make("app")
    inside.change({ commands: [COMMAND] })
    await leave(sandbox)
    await sandboxes.close()
    sandboxes = await start(new MemoryBackend())
    await sandboxes.adopt(signal)
    await expect.poll(() => phaseOf(sandbox), { interval: 1 }).toBe("gone")
    await sandboxes.close()
    sandboxes = await start()
    await sandboxes.adopt(signal)
    await expect.poll(() => phaseOf(sandbox), { interval: 1 }).not.toBe("gone")
    expect(await usersOf(sandbox)).toEqual([`command ${COMMAND}`])
    expect(backend.stateOf(sandbox)).toBe("running")
  })

  it("of an engine that cannot list does not end the watching", async () => {
    await sandboxes.adopt(signal)
    const sandbox = await make("app")
    before = (call) => {
      if (call === "list") throw new Error("the engine is away")
    }
    backend.tell({ kind: "resync" })
    before = () => {}
    backend.exit(sandbox)
    backend.tell({ kind: "removed", sandbox })
    await expect.poll(() => phaseOf(sandbox), { interval: 1 }).toBe("gone")
  })

  it("in a fork leaves no workspace and no lease", async () => {
    const sandbox = await make("app")
    before = (call) => {
      if (call === "pause") throw new Error("it does not stand still")
    }
    const copied = Slug.parse("copy")
    await expect(
      sandboxes.copies.fork(sandbox, copied, { signal, onProgress: () => {} }),
    ).rejects.toThrow()
    before = () => {}
    expect(await openWorkspaces(store.db, new FakeClock()).get(copied)).toBeUndefined()
    expect(await usersOf(sandbox)).toEqual([])
  })
})

it("takes a sandbox whose versions go backwards for silent, and keeps it", async () => {
  const sandbox = await make("app")
  inside.change({ version: 2_000 })
  await leave(sandbox)
  inside.silence()
  await leave(sandbox)
  inside.silence(false)
  inside.change({ version: 5 })
  const { sandboxes: said } = await sandboxes.reconcile({ dryRun: false })
  expect(said).toMatchObject([{ sandbox, outcome: "kept", reason: "it does not answer" }])
})
