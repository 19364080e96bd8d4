import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest"
import type { Sandboxes } from "../sandboxes.ts"
import { FakeClock } from "../testing/clock.ts"
import { Inside } from "../testing/inside.ts"
import { type BeforeCall, MemoryBackend } from "../testing/memory-backend.ts"
import { openMemoryHost } from "../testing/memory-host.ts"
import { storeOfFile } from "../testing/store.ts"
import { OLD_CONFIG, POLICY } from "../testing/world.ts"
import { openLeases } from "../use/leases.ts"
import { FIRST_BACKOFF_MS } from "./workers.ts"

/** The most removals that run at once. */
const AT_ONCE = 32

const { signal } = new AbortController()
const store = storeOfFile()
let backend: MemoryBackend
let inside: Inside
let before: BeforeCall
let sandboxes: Sandboxes

/** Opens the host that an earlier server left, as a server does at its start. */
const start = async (): Promise<Sandboxes> => {
  const opened = await openMemoryHost({
    db: store.db,
    backend,
    clock: new FakeClock(),
    policy: POLICY,
    inside: () => inside,
  })
  onTestFinished(() => opened.close())
  return opened
}

beforeEach(async () => {
  for (const table of ["leases", "sandboxes", "workspaces", "decisions"] as const)
    await store.db.deleteFrom(table).execute()
  before = () => {}
  backend = new MemoryBackend((call, sandbox) => before(call, sandbox))
  inside = new Inside()
  sandboxes = await start()
})

const specOf = (slug: string, version: number): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug, environment: { VERSION: String(version) } })

const make = async (slug: string): Promise<SandboxId> => {
  const { sandbox } = await sandboxes.workspaces.up(specOf(slug, 1), { mode: "fresh" }, signal)
  await expect
    .poll(async () => (await sandboxes.views.get(sandbox, signal)).phase, { interval: 1 })
    .toBe("ready")
  return sandbox
}

/** Changes a workspace in the store, without a word to the server. */
const change = async (slug: string): Promise<void> => {
  const spec = JSON.stringify(specOf(slug, 2))
  const where = Slug.parse(slug)
  await store.db.updateTable("workspaces").set({ spec }).where("slug", "=", where).execute()
}

const makeStale = async (count: number): Promise<SandboxId[]> => {
  const slugs = Array.from({ length: count }, (_, at) => `stale-${at}`)
  const made: SandboxId[] = []
  for (const slug of slugs) made.push(await make(slug))
  for (const slug of slugs) await change(slug)
  return made
}

const outcomes = async (): Promise<Map<SandboxId, string>> => {
  const report = await sandboxes.reconcile({ dryRun: false })
  return new Map(report.sandboxes.map(({ sandbox, outcome }) => [sandbox, outcome]))
}

/** Everything that the store and the engine have. */
const everything = async () => ({
  engine: backend.all,
  sandboxes: await store.db.selectFrom("sandboxes").selectAll().execute(),
  leases: await store.db.selectFrom("leases").selectAll().execute(),
  workspaces: await store.db.selectFrom("workspaces").selectAll().execute(),
  decisions: await store.db.selectFrom("decisions").selectAll().execute(),
})

const inUse = new BerthError("backend.engine_failed", "it cannot be removed", {
  details: { engineSaid: "device or resource busy" },
})

describe("reconcile", () => {
  it("[R1.3] [R1.8] removes stale, unused sandboxes, 32 at once", async () => {
    const stale = await makeStale(AT_ONCE + 4)
    let [running, most] = [0, 0]
    const gate = Promise.withResolvers<void>()
    before = async (call) => {
      if (call !== "stop") return
      running += 1
      most = Math.max(most, running)
      await gate.promise
      running -= 1
    }
    const reconciling = sandboxes.reconcile({ dryRun: false })
    await expect.poll(() => running).toBe(AT_ONCE)
    gate.resolve()
    const report = await reconciling
    expect(most).toBe(AT_ONCE)
    expect(report.sandboxes).toHaveLength(stale.length)
    for (const each of report.sandboxes)
      expect(each).toMatchObject({
        outcome: "removed",
        action: "stop",
        reason: "its workspace has changed",
      })
    expect(backend.all).toEqual([])
  })

  it("inspects each stale sandbox once, and resolves their common system once", async () => {
    const stale = await makeStale(5)
    const [inspect, resolve] = [vi.spyOn(backend, "inspect"), vi.spyOn(backend, "resolveSystem")]
    expect(new Set((await outcomes()).values())).toEqual(new Set(["removed"]))
    expect(inspect.mock.calls.flat().toSorted()).toEqual(stale.toSorted())
    expect(resolve).toHaveBeenCalledTimes(1)
  })

  it("[R1.4] removes the others where two removals fail, and these once they can be removed", async () => {
    const stale = await makeStale(6)
    const stuck = new Set(stale.slice(0, 2))
    before = (call, sandbox) => {
      if (call === "remove" && sandbox && stuck.has(sandbox)) throw inUse
    }
    const first = await sandboxes.reconcile({ dryRun: false })
    for (const { sandbox, outcome, error } of first.sandboxes)
      expect([outcome, error?.details]).toEqual(
        stuck.has(sandbox)
          ? ["failed", { engineSaid: "device or resource busy" }]
          : ["removed", undefined],
      )
    expect(new Set(backend.all.map(({ identity }) => identity.sandbox))).toEqual(stuck)
    const [why] = (await sandboxes.views.why(stale[0] as SandboxId)).decisions
    expect(why).toMatchObject({ action: "remove failed", reason: "it cannot be removed" })
    // A further attempt that fails is not written again, so that the reason of the stop stays in sight.
    const written = (await sandboxes.views.why(stale[0] as SandboxId)).decisions.length
    await sandboxes.reconcile({ dryRun: false })
    expect((await sandboxes.views.why(stale[0] as SandboxId)).decisions).toHaveLength(written)

    stuck.clear()
    expect([...(await outcomes()).values()]).toEqual(["removed", "removed"])
    expect(backend.all).toEqual([])
  })

  it("reports a sandbox that could be inspected at the second look only", async () => {
    const sandbox = await make("one")
    const [began, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    before = async (call) => {
      if (call !== "inspect") return
      before = () => {}
      began.resolve()
      await gate.promise
    }
    const reconciling = sandboxes.reconcile({ dryRun: false })
    await began.promise
    // The hold has the sandbox looked at again.
    await sandboxes.requests.hold(sandbox, { holder: "somebody" }, signal)
    gate.reject(inUse)
    expect((await reconciling).sandboxes).toMatchObject([
      { sandbox, workspace: "one", phase: "ready", state: "running", outcome: "kept" },
    ])
  })

  it("[R1.4] repeats a removal that failed half-way, and reports it until it is done", async () => {
    const [sandbox] = (await makeStale(1)) as [SandboxId]
    let isStuck = true
    vi.spyOn(backend, "remove").mockImplementation(async () => {
      await MemoryBackend.prototype.remove.call(backend, sandbox)
      if (isStuck) throw inUse
    })
    expect(await outcomes()).toEqual(new Map([[sandbox, "failed"]]))
    expect(await outcomes()).toEqual(new Map([[sandbox, "failed"]]))
    isStuck = false
    expect(await outcomes()).toEqual(new Map([[sandbox, "removed"]]))
  })

  it("[R1.4] tries a failed removal again by itself", async () => {
    const [sandbox] = (await makeStale(1)) as [SandboxId]
    let attempts = 0
    before = (call) => {
      if (call === "remove" && ++attempts === 1) throw inUse
    }
    expect(await outcomes()).toEqual(new Map([[sandbox, "failed"]]))
    await expect
      .poll(() => backend.stateOf(sandbox), { timeout: FIRST_BACKOFF_MS + 10_000 })
      .toBe(undefined)
    expect(attempts).toBe(2)
  })

  it("[R1.4] fails for a sandbox that cannot be inspected, and for no other", async () => {
    const [blind, other] = (await makeStale(2)) as [SandboxId, SandboxId]
    before = (call, sandbox) => {
      if (call === "inspect" && sandbox === blind) throw inUse
    }
    expect(await outcomes()).toEqual(
      new Map([
        [blind, "failed"],
        [other, "removed"],
      ]),
    )
    const plan = await sandboxes.reconcile({ dryRun: true })
    expect(plan.sandboxes).toMatchObject([{ sandbox: blind, outcome: "failed" }])
  })

  it("[R1.6] keeps a stale sandbox in use, and names the use", async () => {
    const [stale, current] = [await make("stale"), await make("current")]
    await sandboxes.requests.hold(stale, { holder: "maria" }, signal)
    await change("stale")
    const { sandboxes: all } = await sandboxes.reconcile({ dryRun: false })
    expect(new Map(all.map((each) => [each.sandbox, each]))).toEqual(
      new Map([
        [stale, expect.objectContaining({ outcome: "changed", action: "drain" })],
        [current, expect.objectContaining({ outcome: "kept", reason: "nobody uses it" })],
      ]),
    )
    const again = await sandboxes.reconcile({ dryRun: false })
    expect(again.sandboxes.find(({ sandbox }) => sandbox === stale)).toMatchObject({
      outcome: "kept",
      reason: expect.stringContaining("replaced when it is no longer used by a hold of maria"),
    })
    expect(backend.stateOf(stale)).toBe("running")
  })

  it("says in a dry run what it would do, and changes nothing", async () => {
    const [stale, current] = [await make("stale"), await make("current")]
    await change("stale")
    const identity = { installation: newId.installation(), configHash: OLD_CONFIG }
    const [dead, living] = [newId.sandbox(), newId.sandbox()]
    backend.plant({ ...identity, sandbox: dead, workspace: Slug.parse("dead") }, "exited")
    backend.plant({ ...identity, sandbox: living, workspace: Slug.parse("living") }, "running")
    const was = await everything()
    const plan = await sandboxes.reconcile({ dryRun: true })
    expect(plan.dryRun).toBe(true)
    expect(
      new Map(plan.sandboxes.map(({ sandbox, action, outcome }) => [sandbox, [action, outcome]])),
    ).toEqual(
      new Map([
        [stale, ["stop", "planned"]],
        [current, ["keep", "kept"]],
        [dead, ["quarantine", "planned"]],
        [living, ["query", "planned"]],
      ]),
    )
    expect(await everything()).toEqual(was)
    expect(inside.asked).toBe(0)
  })

  it("[R1.5] [R1.9] does not hold up the start, and stops no sandbox before it has answered", async () => {
    const [stale] = (await makeStale(1)) as [SandboxId]
    await sandboxes.close()
    const answers = Promise.withResolvers<void>()
    const { answer } = inside
    Object.assign(inside, {
      answer: async (...given: Parameters<typeof answer>) => {
        await answers.promise
        return await answer(...given)
      },
    })
    sandboxes = await start()
    await sandboxes.adopt(signal)
    expect((await sandboxes.views.list(signal)).map(({ phase }) => phase)).toEqual(["ready"])
    expect(backend.stateOf(stale)).toBe("running")
    answers.resolve()
    await expect.poll(() => backend.stateOf(stale)).toBe(undefined)
  })

  it("[R1.10] leaves an unknown sandbox running while something is active in it", async () => {
    const leases = await openLeases({
      db: store.db,
      clock: new FakeClock(),
      onFree: () => {},
    })
    onTestFinished(() => leases.close())
    const sandbox = await make("kept")
    // The store is from before the sandbox was made.
    await sandboxes.close()
    await store.db.deleteFrom("sandboxes").execute()
    sandboxes = await start()
    inside.change({ leftProcesses: 1 })
    expect(await outcomes()).toEqual(new Map([[sandbox, "changed"]]))
    expect(backend.stateOf(sandbox)).toBe("running")
    expect((await leases.of(sandbox)).map(({ holder }) => holder)).toEqual([
      "processes left running",
    ])
  })
})
