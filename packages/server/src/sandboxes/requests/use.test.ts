import { type LeaseId, newId, type SandboxId, Slug } from "@berth/protocol/ids"
import type { Lease } from "@berth/protocol/lease"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it, onTestFinished } from "vitest"
import type { BridgeCall } from "../keeping/bridges.ts"
import { FakeClock } from "../testing/clock.ts"
import { Inside } from "../testing/inside.ts"
import { MemoryBackend } from "../testing/memory-backend.ts"
import { type MemoryHost, openMemoryHost } from "../testing/memory-host.ts"
import { storeOfFile } from "../testing/store.ts"
import { POLICY } from "../testing/world.ts"
import type { Leases } from "../use/leases.ts"
import { watchedLease } from "./session-leases.ts"
import { openSandboxUse, type UseParts } from "./use.ts"

const { signal } = new AbortController()
const store = storeOfFile()
const claim = { kind: "prompt", source: "call", holder: "a prompt" } as const

const open = async (
  slug: string,
  boot: NonNullable<MemoryHost["boot"]>,
  inside?: MemoryHost["inside"],
) => {
  const backend = new MemoryBackend()
  const sandboxes = await openMemoryHost({
    db: store.db,
    backend,
    clock: new FakeClock(),
    policy: POLICY,
    boot,
    ...(inside && { inside }),
  })
  onTestFinished(() => sandboxes.close())
  await sandboxes.adopt(signal)
  await sandboxes.workspaces.save(WorkspaceSpec.parse({ slug }), {}, signal)
  return { backend, sandboxes, use: () => sandboxes.use.useOf(Slug.parse(slug), claim, signal) }
}

it("[R3.4] lets a boot that was cut short from outside be tried again, and uses the next sandbox", async () => {
  const booting = Promise.withResolvers<SandboxId>()
  let boots = 0
  const { backend, use } = await open("cut", async (sandbox) => {
    booting.resolve(sandbox)
    if (++boots === 1) await new Promise(() => {})
  })
  const first = use()
  const cut = await booting.promise
  backend.exit(cut)
  const exit = { code: null, reason: "signalled", at: new Date(0).toISOString() } as const
  backend.tell({ kind: "exited", sandbox: cut, exit })
  await expect(first).rejects.toMatchObject({ code: "bridge.dropped", retry: "now" })
  const { sandbox } = await use()
  expect(sandbox).not.toBe(cut)
})

it("fails for good when a boot fails by itself", async () => {
  const { use } = await open("fails", () => Promise.reject(new Error("the hook failed")))
  await expect(use()).rejects.toMatchObject({ code: "boot.failed", retry: "never" })
})

it("does not begin an ended use again by a late renewal", async () => {
  const { sandboxes, use } = await open("late", async () => {})
  const { sandbox, end } = await use()
  await end()
  const watched = await sandboxes.use.resume(sandbox, watchedLease(newId.session()))
  await watched.end()
  watched.renew()
  // Written after anything that the renewal could have begun.
  const next = await sandboxes.requests.hold(sandbox, { holder: "a person" }, signal)
  expect((await sandboxes.views.get(sandbox, signal)).leases).toEqual([next])
})

it("[R3.4] refuses a sandbox that ended without an event to a prompt that would go on in it", async () => {
  const { backend, sandboxes, use } = await open("unheard", async () => {})
  const { sandbox } = await use()
  backend.exit(sandbox)
  await expect(sandboxes.use.useOnly(sandbox, claim)).rejects.toMatchObject({
    code: "sandbox.ended",
  })
})

it("[R3.3] asks a sandbox what runs in it as soon as it is reached again", async () => {
  const inside = new Inside()
  let onState: BridgeCall["onState"] = () => {}
  const { sandboxes, use } = await open(
    "again",
    (_, state) => {
      onState = state
    },
    () => inside,
  )
  const { leave } = await use()
  inside.silence()
  await leave()
  onState({ kind: "down" })
  await sandboxes.reconcile({ dryRun: false })
  const before = inside.asked
  inside.silence(false)
  onState({ kind: "up" })
  await expect.poll(() => inside.asked).toBeGreaterThan(before)
})

it("[R1.6] keeps the lease of a use that is resumed while its sandbox is halted", async () => {
  const released: LeaseId[] = []
  const found = { id: newId.lease(), source: "prompt", subject: "prm-1" } as Partial<Lease> as Lease
  const leases = {
    of: async () => [found],
    acquire: async () => newId.lease(),
    release: async (lease) => void released.push(lease),
  } as Partial<Leases> as Leases
  const uses = openSandboxUse({ leases, held: () => "no room" } as Partial<UseParts> as UseParts)
  const resume = (subject: string) =>
    uses.resume(newId.sandbox(), { ...claim, source: "prompt", subject })
  await expect(resume("prm-1")).rejects.toMatchObject({ code: "sandbox.halted" })
  expect(released).toEqual([])
  await expect(resume("prm-2")).rejects.toMatchObject({ code: "sandbox.halted" })
  expect(released).toHaveLength(1)
})
