import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { MAX_FAILED_BOOTS } from "../deciding/decide-request.ts"
import type { Sandboxes } from "../sandboxes.ts"
import { FakeClock } from "../testing/clock.ts"
import { Inside } from "../testing/inside.ts"
import { MemoryBackend } from "../testing/memory-backend.ts"
import { openMemoryHost } from "../testing/memory-host.ts"
import { storeOfFile } from "../testing/store.ts"
import { OLD_CONFIG, POLICY } from "../testing/world.ts"
import { thinkingLease } from "./session-leases.ts"

const APP = Slug.parse("app")
const { signal } = new AbortController()
const store = storeOfFile()
let backend: MemoryBackend
let sandboxes: Sandboxes
let calls: string[]
let failing: boolean
let boots: number
let refusal: BerthError | undefined
/** Whether each caller that needed a toolbox is told its progress. */
let told: (boolean | undefined)[]

beforeEach(async () => {
  for (const table of ["leases", "sandboxes", "workspaces", "decisions"] as const)
    await store.db.deleteFrom(table).execute()
  calls = []
  failing = false
  boots = 0
  refusal = undefined
  told = []
  backend = new MemoryBackend((call) => {
    if (call === "remove" && refusal !== undefined) throw refusal
    if (call !== "inspect" && call !== "list") calls.push(call)
  })
  const opened = await openMemoryHost({
    db: store.db,
    backend,
    clock: new FakeClock(),
    policy: POLICY,
    prepare: async (wait) => void told.push(wait?.isTold),
    boot: (sandbox) => {
      boots += 1
      if (!failing) return
      backend.exit(sandbox)
      throw new Error("the setup hook failed")
    },
  })
  onTestFinished(() => opened.close())
  sandboxes = opened
})

const prompt = { kind: "prompt", source: "prompt", holder: "a prompt" } as const

/** Makes a sandbox stale, as if an earlier Berth had made it. */
const outdate = async (sandbox: SandboxId): Promise<void> => {
  await store.db
    .updateTable("sandboxes")
    .set({ config_hash: OLD_CONFIG })
    .where("id", "=", sandbox)
    .execute()
}

const specOf = (version: number): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug: APP, environment: { VERSION: String(version) } })

const up = (version: number, waitMs?: number) =>
  sandboxes.workspaces.up(
    specOf(version),
    { mode: "fresh", ...(waitMs !== undefined && { waitMs }) },
    signal,
  )

const use = async (sandbox: SandboxId): Promise<unknown> => {
  try {
    const one = await sandboxes.use.begin(
      sandbox,
      { kind: "exec", source: "call", holder: "a test" },
      signal,
    )
    await one.end()
    return one.sandbox
  } catch (thrown) {
    return thrown instanceof BerthError ? thrown.code : thrown
  }
}

describe("the current sandbox of a workspace", () => {
  it("[R1.1] is one for ten callers at the same time", async () => {
    const all = await Promise.all(Array.from({ length: 10 }, () => up(1)))
    expect(new Set(all.map(({ sandbox }) => sandbox)).size).toBe(1)
    expect(all.filter(({ made }) => made)).toHaveLength(1)
    expect(calls).toEqual(["create", "start"])
  })

  it("[R1.8] is replaced once for five callers when it is stale and unused", async () => {
    const { sandbox: old } = await up(1)
    calls = []
    const all = await Promise.all(Array.from({ length: 5 }, () => up(2)))
    const [{ sandbox } = { sandbox: old }] = all
    expect(new Set(all.map((each) => each.sandbox))).toEqual(new Set([sandbox]))
    expect(sandbox).not.toBe(old)
    expect(calls).toEqual(["stop", "remove", "create", "start"])
    expect(backend.all.map(({ identity }) => identity.sandbox)).toEqual([sandbox])
  })

  it("tells the progress of its toolbox to those who ask again, and lets all others wait for it", async () => {
    await up(1, 20)
    await up(1)
    const { sandbox, end } = await sandboxes.use.useOf(APP, prompt, signal)
    await end()
    await sandboxes.requests.stop(sandbox, { force: false })
    await sandboxes.names.named(APP, { quarantined: false, start: true }, signal)
    expect(told.filter((isTold) => isTold !== undefined)).toEqual([true, false, true, false])
  })

  it("[R1.6] is waited for while the stale one is in use, and the error names that use", async () => {
    const { sandbox: old } = await up(1)
    const { id } = await sandboxes.requests.hold(old, { holder: "maria" }, signal)
    const refusal = await up(2, 20).catch((each) => each)
    expect(refusal).toMatchObject({
      code: "workspace.draining",
      details: { workspace: APP, sandbox: old, users: [expect.stringContaining("hold of maria")] },
    })
    expect((await sandboxes.views.get(old, signal)).phase).toBe("draining")
    const waiting = up(2)
    await sandboxes.requests.release(old, id)
    const { sandbox } = await waiting
    expect(sandbox).not.toBe(old)
    expect(backend.all.map(({ identity }) => identity.sandbox)).toEqual([sandbox])
  })

  it("[R1.6] can be given up by a caller that waits for it", async () => {
    const { sandbox: old } = await up(1)
    await sandboxes.requests.hold(old, { holder: "maria" }, signal)
    const patience = new AbortController()
    const waiting = sandboxes.workspaces.up(specOf(2), { mode: "fresh" }, patience.signal)
    await expect
      .poll(async () => (await sandboxes.views.get(old, signal)).phase, { interval: 5 })
      .toBe("draining")
    patience.abort()
    const refusal = await waiting.catch((each) => each)
    expect(refusal).toMatchObject({ code: "workspace.draining" })
    expect(backend.stateOf(old)).toBe("running")
  })

  it("is refused with the reason why the one before it does not end", async () => {
    const { sandbox: old } = await up(1)
    refusal = new BerthError("backend.engine_failed", "the engine refused: a mount is left")
    const words = `which is stopping; the last attempt failed: remove: ${refusal.message}`
    await expect(up(2, 500)).rejects.toMatchObject({
      code: "workspace.draining",
      message: `app waits for ${old}, ${words}`,
    })
    refusal = undefined
    expect(await up(2)).toMatchObject({ made: true })
  })

  it("is the draining one again when its workspace is as it was, also for a caller that waits", async () => {
    const { sandbox } = await up(1)
    await sandboxes.requests.hold(sandbox, { holder: "maria" }, signal)
    const waiting = up(2)
    await expect
      .poll(async () => (await sandboxes.views.get(sandbox, signal)).phase, { interval: 5 })
      .toBe("draining")
    expect(await up(1)).toEqual({ sandbox, made: false })
    expect(await waiting).toEqual({ sandbox, made: false })
    expect((await sandboxes.views.get(sandbox, signal)).phase).toBe("ready")
  })

  it("[R1.6] is not replaced while it is stale and has not told its activity", async () => {
    const { sandbox: old } = await up(1)
    await sandboxes.close()
    const inside = new Inside()
    inside.silence()
    sandboxes = await openMemoryHost({
      db: store.db,
      backend,
      clock: new FakeClock(),
      policy: POLICY,
      inside: () => inside,
    })
    onTestFinished(() => sandboxes.close())
    await sandboxes.adopt(signal)
    await expect(up(2, 20)).rejects.toMatchObject({ code: "workspace.draining" })
    expect(inside.asked).toBeGreaterThan(0)
    expect(backend.stateOf(old)).toBe("running")
    expect((await sandboxes.views.get(old, signal)).phase).toBe("ready")
  })

  it.each(["a change of its workspace", "a request after an upgrade of Berth"])(
    "[R1.7] is made within 5 s by %s, though a session keeps the stale one",
    async (what) => {
      const { sandbox: old } = await up(1)
      await sandboxes.use.resume(old, thinkingLease(newId.session(), 60_000))
      const isChange = what.startsWith("a change")
      if (!isChange) {
        await outdate(old)
        const used = sandboxes.use.useOf(APP, prompt, AbortSignal.timeout(2_000))
        await expect(used).rejects.toMatchObject({ code: "workspace.draining" })
      }
      const { sandbox } = await up(isChange ? 2 : 1, 5_000)
      expect(sandbox).not.toBe(old)
    },
  )

  describe("whose boots keep failing", () => {
    /** Boots a workspace until it is given up, and returns the id of its first sandbox. */
    const giveUp = async (): Promise<SandboxId> => {
      failing = true
      const { sandbox } = await up(1)
      await expect.poll(() => use(sandbox), { interval: 5 }).toBe("workspace.failing")
      expect(boots).toBe(MAX_FAILED_BOOTS)
      return sandbox
    }

    it("is given up after three boots, and the error says why", async () => {
      const sandbox = await giveUp()
      const thrown = await sandboxes.use
        .begin(sandbox, { kind: "exec", source: "call", holder: "a test" }, signal)
        .catch((each) => each)
      expect(thrown.message).toMatch(/the last 3 boots of app failed: .*the setup hook failed/)
      expect(boots).toBe(MAX_FAILED_BOOTS)
    })

    it("is tried again when its workspace has changed", async () => {
      const sandbox = await giveUp()
      failing = false
      const spec = JSON.stringify(specOf(2))
      await store.db.updateTable("workspaces").set({ spec }).where("slug", "=", APP).execute()
      expect(await use(sandbox)).toMatch(/^sb-/)
      expect(boots).toBe(MAX_FAILED_BOOTS + 1)
    })

    it("is tried again when a person asks for it, and a boot that succeeds settles it", async () => {
      const first = await giveUp()
      failing = false
      const { sandbox, made } = await up(1)
      expect([made, boots]).toEqual([true, MAX_FAILED_BOOTS + 1])
      await expect.poll(() => use(first), { interval: 5 }).toBe(sandbox)
    })
  })
})
