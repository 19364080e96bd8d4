import { BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { type Clock, systemClock } from "./state/clock.ts"
import { FakeClock } from "./testing/clock.ts"
import { Inside } from "./testing/inside.ts"
import { MemoryBackend } from "./testing/memory-backend.ts"
import { openMemoryHost } from "./testing/memory-host.ts"
import { storeOfFile } from "./testing/store.ts"
import { POLICY } from "./testing/world.ts"

const APP = Slug.parse("app")
const SPEC = WorkspaceSpec.parse({ slug: APP })
const KEEP_MS = POLICY.failedBootKeepMs
const REASON = /setup-hook: .*no compiler/
const { signal } = new AbortController()
const store = storeOfFile()
const command = { kind: "exec", source: "call", holder: "a person" } as const

const forgetAll = async () => {
  for (const table of ["leases", "sandboxes", "workspaces", "decisions"] as const)
    await store.db.deleteFrom(table).execute()
}
beforeEach(forgetAll)

interface Failing {
  readonly keepMs?: number
  readonly clock?: Clock
  readonly backend?: MemoryBackend
  readonly inside?: Inside
}

/** Opens a server whose boots fail at the setup hook until `mend` is called. */
const openFailing = async ({
  keepMs = KEEP_MS,
  clock = systemClock,
  backend = new MemoryBackend(),
  inside,
}: Failing = {}) => {
  let isMended = false
  let boots = 0
  const sandboxes = await openMemoryHost({
    db: store.db,
    backend,
    clock,
    policy: { ...POLICY, failedBootKeepMs: keepMs },
    ...(inside && { inside: () => inside }),
    boot: () => {
      boots += 1
      if (isMended) return
      throw new BerthError("hook.failed", "no compiler", { details: { step: "setup-hook" } })
    },
    trace: async () => {
      const ending = { step: "setup-hook", reason: "no compiler", atMs: 1, others: [] }
      return BootTrace.parse({
        mode: "fresh",
        startedAt: "2026-01-01T00:00:00.000Z",
        outcome: "failed",
        readyAtMs: null,
        endedAtMs: 1,
        ending,
        warnings: [],
        steps: [],
      })
    },
  })
  onTestFinished(() => sandboxes.close())
  await sandboxes.adopt(signal)
  return {
    sandboxes,
    backend,
    boots: () => boots,
    mend: () => {
      isMended = true
    },
    up: async (options: { readonly retry?: boolean; readonly waitMs?: number } = {}) => {
      const { sandbox } = await sandboxes.workspaces.up(SPEC, { mode: "fresh", ...options }, signal)
      await sandboxes.running.booted(sandbox, signal)
      return sandbox
    },
    phaseOf: async (sandbox: SandboxId) => (await sandboxes.views.get(sandbox, signal)).phase,
    whyStopped: async (sandbox: SandboxId) =>
      (await sandboxes.views.why(sandbox)).decisions.find(({ action }) => action === "stop")
        ?.reason,
  }
}

const modeOf = async (sandbox: SandboxId) =>
  (await store.db.selectFrom("sandboxes").select("mode").where("id", "=", sandbox).execute())[0]
    ?.mode

describe("a sandbox whose boot failed", () => {
  it("stays up until its time is over, and the reason of its stop says why it failed", async () => {
    const clock = new FakeClock()
    const { sandboxes, up, phaseOf, whyStopped } = await openFailing({ clock })
    const sandbox = await up()
    clock.pass(KEEP_MS - 1)
    await sandboxes.reconcile({ dryRun: false })
    expect(await phaseOf(sandbox)).toBe("failed")
    clock.pass(1)
    await sandboxes.reconcile({ dryRun: false })
    expect(await phaseOf(sandbox)).toBe("gone")
    expect(await whyStopped(sandbox)).toMatch(REASON)
    expect(await whyStopped(sandbox)).toContain("15 min")
  })

  it("is stopped at the end of its time without a reconcile", async () => {
    const { up, phaseOf } = await openFailing({ keepMs: 20 })
    const sandbox = await up()
    await expect.poll(() => phaseOf(sandbox)).toBe("gone")
  })

  it("stays up past its time while it is in use, and is stopped when that use ends", async () => {
    const clock = new FakeClock()
    const { sandboxes, up, phaseOf } = await openFailing({ clock })
    const sandbox = await up()
    const inside = await sandboxes.use.begin(sandbox, command, signal)
    clock.pass(2 * KEEP_MS)
    await sandboxes.reconcile({ dryRun: false })
    expect(await phaseOf(sandbox)).toBe("failed")
    await inside.end()
    await expect.poll(() => phaseOf(sandbox)).toBe("gone")
  })

  it("is stopped at once where failed boots are not kept, and a command that starts it fails with the reason", async () => {
    const { sandboxes, up, boots, phaseOf, whyStopped } = await openFailing({ keepMs: 0 })
    const sandbox = await up()
    await expect.poll(() => phaseOf(sandbox)).toBe("gone")
    expect(await whyStopped(sandbox)).toMatch(REASON)
    expect(boots()).toBe(1)
    await expect(sandboxes.use.begin(sandbox, command, signal)).rejects.toMatchObject({
      code: "boot.failed",
      message: expect.stringMatching(REASON),
    })
    expect(boots()).toBe(2)
    expect(await sandboxes.views.list(signal)).toMatchObject([{ phase: "gone" }])
  })

  it("is not replaced by a retry while it is in use, and boots again when that use ends", async () => {
    const { sandboxes, up, mend, phaseOf } = await openFailing()
    const sandbox = await up()
    const inside = await sandboxes.use.begin(sandbox, command, signal)
    mend()
    await expect(up({ retry: true, waitMs: 20 })).rejects.toMatchObject({
      code: "workspace.draining",
      details: { users: [expect.stringContaining("a person")] },
    })
    expect(await phaseOf(sandbox)).toBe("failed")
    const retried = up({ retry: true })
    await inside.end()
    const next = await retried
    expect(next).not.toBe(sandbox)
    expect(await phaseOf(next)).toBe("ready")
  })
})

/** Makes an engine with a sandbox whose boot failed, and a store that does not know it. */
const loseFailed = async () => {
  const { sandboxes, backend, up } = await openFailing()
  const sandbox = await up()
  await sandboxes.close()
  await forgetAll()
  return { backend, sandbox }
}

describe("a sandbox whose boot failed and that the store does not know", () => {
  it("is adopted as failed while something is active in it, and a retry boots it fresh", async () => {
    const { backend, sandbox } = await loseFailed()
    const inside = new Inside()
    inside.change({ leftProcesses: 1 })
    const { sandboxes, up, mend, phaseOf } = await openFailing({ backend, inside })
    await sandboxes.reconcile({ dryRun: false })
    expect(await phaseOf(sandbox)).toBe("failed")
    await expect(up()).rejects.toMatchObject({
      code: "boot.failed",
      message: expect.stringMatching(REASON),
    })
    inside.change({ leftProcesses: 0 })
    mend()
    const next = await up({ retry: true })
    expect(await phaseOf(next)).toBe("ready")
    expect(await modeOf(next)).toBe("fresh")
  })

  it("is quarantined while nothing is active in it, and boots fresh once a person has recovered it", async () => {
    const { backend, sandbox } = await loseFailed()
    const { sandboxes, up, mend, phaseOf } = await openFailing({ backend })
    await sandboxes.reconcile({ dryRun: false })
    expect(await phaseOf(sandbox)).toBe("quarantined")
    await sandboxes.requests.recover(sandbox)
    mend()
    const next = await up()
    expect(await phaseOf(next)).toBe("ready")
    expect(await modeOf(next)).toBe("fresh")
  })
})
