import type { ContractHarness } from "@berth/backends/testing/contract/harness"
import type { SandboxId } from "@berth/protocol/ids"
import { sampledCases } from "@berth/testing/sampled-cases"
import { afterAll, beforeAll, describe, expect, onTestFinished } from "vitest"
import { openWorld } from "./world.ts"

export interface ReconcileHarness extends ContractHarness {
  /** Makes it impossible for the engine to remove a sandbox, until the returned function is called. */
  obstruct(sandbox: SandboxId): Promise<() => Promise<void>>
  /**
   * Makes things on the same engine that look like sandboxes and are not Berth's. The returned function removes them,
   * and tells whether they were untouched.
   */
  strangers(): Promise<() => Promise<boolean>>
}

const STALE = 20
const OBSTRUCTED = 2
const SETTING_UP_MS = 120_000

/** Adds the cases of a reconcile on a real engine. */
export const reconcileSuite = (
  { name, few = 2 }: { readonly name: string; readonly few?: number },
  open: () => Promise<ReconcileHarness>,
) => {
  describe(`reconcile on ${name}`, () => {
    let harness: ReconcileHarness
    let world: Awaited<ReturnType<typeof openWorld>>
    beforeAll(async () => {
      harness = await open()
      await harness.backend.repair()
      world = await openWorld(harness)
    }, SETTING_UP_MS)
    afterAll(async () => {
      await world.close()
      await harness.close()
    }, SETTING_UP_MS)

    sampledCases(`cases of reconcile on ${name}`, few, (it) => {
      it("[R1.6] [R1.8] [R1.10] does the right thing for each sandbox, and leaves everything else on the engine alone", async () => {
        const unchanged = await harness.strangers()
        const { add, sandboxes } = world
        const common = { known: true, stale: false, running: true }
        const [current, used, stale, staleUsed, dead, alive, empty, ended, silent] =
          await Promise.all([
            add(common),
            add(common),
            add({ ...common, stale: true }),
            add({ ...common, stale: true }),
            add({ ...common, running: false }),
            add({ ...common, known: false, life: { leftProcesses: 1 } }),
            add({ ...common, known: false }),
            add({ ...common, known: false, running: false }),
            add({ ...common, known: false, silent: true }),
          ])
        const held = await sandboxes.requests.hold(
          staleUsed,
          { holder: "a test" },
          new AbortController().signal,
        )
        await sandboxes.requests.hold(used, { holder: "a test" }, new AbortController().signal)

        const plan = await sandboxes.reconcile({ dryRun: true })
        expect(await world.phaseOf(stale)).toBe("ready")
        expect(await world.phaseOf(alive)).toBeUndefined()
        expect(plan.sandboxes).toHaveLength(9)

        const { sandboxes: said } = await sandboxes.reconcile({ dryRun: false })
        const outcomes = new Map(said.map(({ sandbox, outcome }) => [sandbox, outcome]))
        const seen = async (id: SandboxId) => [
          ...[outcomes.get(id), await world.phaseOf(id), await world.stateOf(id)],
        ]
        expect(await seen(current)).toEqual(["kept", "ready", "running"])
        expect(await seen(used)).toEqual(["kept", "ready", "running"])
        expect(await seen(stale)).toEqual(["removed", "gone", undefined])
        expect((await seen(staleUsed)).slice(1)).toEqual(["draining", "running"])
        expect(await seen(dead)).toEqual(["removed", "gone", undefined])
        expect(await seen(alive)).toEqual(["changed", "ready", "running"])
        expect(await seen(empty)).toEqual(["changed", "quarantined", "exited"])
        expect(await seen(ended)).toEqual(["changed", "quarantined", "exited"])
        expect(await seen(silent)).toEqual(["kept", undefined, "running"])
        for (const { reason } of said) expect(reason).not.toBe("")

        // Nothing changes without a reason: the sandbox goes when its last use ends.
        const again = await sandboxes.reconcile({ dryRun: false })
        expect(again.sandboxes.filter(({ outcome }) => outcome !== "kept")).toEqual([])
        await sandboxes.requests.release(staleUsed, held.id)
        await expect.poll(() => world.phaseOf(staleUsed)).toBe("gone")
        expect(await unchanged()).toBe(true)

        await expect(sandboxes.requests.remove(silent, { force: false })).rejects.toMatchObject({
          code: "sandbox.in_use",
        })
        await sandboxes.requests.remove(silent, { force: true })
        expect(await world.stateOf(silent)).toBeUndefined()
        for (const id of [current, used, alive, empty, ended])
          await sandboxes.requests.stop(id, { force: true })
      }, 60_000)

      it("[R1.3] [R1.4] removes eighteen of twenty sandboxes in one pass, says why two cannot be removed, and removes them later", async () => {
        const { add, sandboxes } = world
        const all: SandboxId[] = []
        while (all.length < STALE)
          all.push(
            ...(await Promise.all(
              Array.from({ length: 5 }, () => add({ known: true, stale: true, running: true })),
            )),
          )
        const stuck = all.slice(0, OBSTRUCTED)
        const obstructions = new Set(await Promise.all(stuck.map(harness.obstruct)))
        const clear = async () => {
          for (const free of obstructions) {
            obstructions.delete(free)
            await free()
          }
        }
        onTestFinished(clear)

        const { sandboxes: said } = await sandboxes.reconcile({ dryRun: false })
        const of = (ids: readonly SandboxId[]) =>
          said.filter(({ sandbox }) => ids.includes(sandbox))
        const others = of(all.slice(OBSTRUCTED))
        expect(others.filter(({ outcome }) => outcome !== "removed")).toEqual([])
        expect(others).toHaveLength(STALE - OBSTRUCTED)
        for (const { outcome, action, error } of of(stuck)) {
          expect([outcome, action]).toEqual(["failed", "remove"])
          expect(JSON.stringify(error)).toMatch(/not permitted|EPERM/)
        }
        const shown = await sandboxes.views.list(AbortSignal.timeout(10_000))
        const listed = shown.filter(({ phase }) => phase === "stopping")
        expect(listed.map(({ identity }) => identity.sandbox).sort()).toEqual([...stuck].sort())

        await clear()
        const later = await sandboxes.reconcile({ dryRun: false })
        expect(later.sandboxes.filter(({ sandbox }) => stuck.includes(sandbox))).toMatchObject(
          stuck.map(() => ({ outcome: "removed" })),
        )
        for (const sandbox of all) expect(await world.stateOf(sandbox)).toBeUndefined()
      }, 90_000)
    })
  })
}
