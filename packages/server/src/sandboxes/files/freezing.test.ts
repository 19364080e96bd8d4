import { newId, Slug } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { Transients } from "../state/transients.ts"
import { MemoryBackend } from "../testing/memory-backend.ts"
import { OLD_CONFIG } from "../testing/world.ts"
import type { Leases } from "../use/leases.ts"
import type { Freezing as FreezingCall, WorkspaceFiles } from "./files.ts"
import { openFreezing } from "./freezing.ts"

const workspace = Slug.parse("app")
const { signal } = new AbortController()

/** Sets up a running sandbox whose copies the test drives. */
const setUp = (halt?: string) => {
  const backend = new MemoryBackend()
  const sandbox = newId.sandbox()
  const installation = newId.installation()
  backend.plant({ sandbox, workspace, installation, configHash: OLD_CONFIG }, "running")
  const transients = new Transients()
  const begun: { live: NonNullable<FreezingCall["live"]>; end: () => void }[] = []
  const freeze = openFreezing({
    backend: backend.asBackend(),
    leases: { acquire: async () => newId.lease(), release: async () => {} } as unknown as Leases,
    files: {
      freeze: (_workspace: Slug, { live }: FreezingCall) =>
        new Promise((resolve) => {
          if (live !== undefined) begun.push({ live, end: () => resolve(FROZEN) })
        }),
    } as unknown as WorkspaceFiles,
    transients,
    wake: () => {},
    held: () => undefined,
    haltOf: () => halt,
    onThaw: () => {},
  })
  const begin = async () => {
    const lease = { source: "export", subject: workspace, holder: "an export" } as const
    const over = freeze({ workspace, sandbox, lease, signal, onProgress: () => {} })
    const place = begun.length
    await expect.poll(() => begun.length).toBe(place + 1)
    const { live, end } = begun[place] as (typeof begun)[number]
    const finish = async () => {
      end()
      await over
    }
    return { live, finish }
  }
  const standing = () => ({
    state: backend.stateOf(sandbox),
    isMarked: transients.isReserved(sandbox) && transients.copied().includes(sandbox),
  })
  const loseSandbox = async () => {
    await backend.asBackend().remove(sandbox)
    transients.forget(sandbox)
  }
  return { begin, standing, loseSandbox }
}

const FROZEN = { layers: [], frozenMs: 0, end: async () => {} }

it("keeps a sandbox marked and paused at the end of one copy while another copies from it", async () => {
  const { begin, standing } = setUp()
  const [one, other] = [await begin(), await begin()]
  await one.live.freeze()
  await one.live.thaw()
  expect(standing()).toEqual({ state: "running", isMarked: false })
  await other.live.freeze()
  await one.finish()
  expect(standing()).toEqual({ state: "paused", isMarked: true })
  await other.live.thaw()
  await other.finish()
  expect(standing()).toEqual({ state: "running", isMarked: false })
})

it("does not pause a sandbox that stands still because the disk is full", async () => {
  const { begin, standing } = setUp("the disk is full")
  const one = await begin()
  await expect(one.live.freeze()).rejects.toMatchObject({ code: "sandbox.halted" })
  await one.finish()
  expect(standing()).toEqual({ state: "running", isMarked: false })
})

it("resumes a sandbox that two copies have paused at the last thaw", async () => {
  const { begin, standing } = setUp()
  const [one, other] = [await begin(), await begin()]
  await one.live.freeze()
  await other.live.freeze()
  await one.live.thaw()
  await one.finish()
  expect(standing()).toEqual({ state: "paused", isMarked: true })
  await other.live.thaw()
  expect(standing()).toEqual({ state: "running", isMarked: false })
  await other.finish()
})

it("resumes a sandbox by a thaw after a pause that came late", async () => {
  const { begin, standing } = setUp()
  const { live, finish } = await begin()
  const freezing = live.freeze()
  await live.thaw()
  await freezing
  await live.thaw()
  await finish()
  expect(standing()).toEqual({ state: "running", isMarked: false })
})

it("fails to thaw a sandbox that was removed during the copy, and forgets it after the copy", async () => {
  const { begin, standing, loseSandbox } = setUp()
  const { live, finish } = await begin()
  await live.freeze()
  await loseSandbox()
  expect(standing()).toEqual({ state: undefined, isMarked: true })
  await expect(live.thaw()).rejects.toMatchObject({ code: "backend.unknown_sandbox" })
  await finish()
  expect(standing()).toEqual({ state: undefined, isMarked: false })
})
