import { BerthError } from "@berth/protocol/errors"
import { newId, Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { beforeEach, expect, it, onTestFinished } from "vitest"
import type { Sandboxes } from "../sandboxes.ts"
import { FakeClock } from "../testing/clock.ts"
import { type BeforeCall, MemoryBackend } from "../testing/memory-backend.ts"
import { openMemoryHost } from "../testing/memory-host.ts"
import { storeOfFile } from "../testing/store.ts"
import { OLD_CONFIG, POLICY } from "../testing/world.ts"

const app = Slug.parse("app")
const spec = WorkspaceSpec.parse({ slug: app })
const { signal } = new AbortController()
const store = storeOfFile()
let backend: MemoryBackend
let sandboxes: Sandboxes
let prepare: () => Promise<void>
let beforeCall: BeforeCall

beforeEach(async () => {
  await forgetAll()
  beforeCall = () => {}
  backend = new MemoryBackend((call, sandbox) => beforeCall(call, sandbox))
  prepare = async () => {}
  sandboxes = await openMemoryHost({
    db: store.db,
    backend,
    clock: new FakeClock(),
    policy: POLICY,
    prepare: () => prepare(),
  })
  onTestFinished(() => sandboxes.close())
})

const forgetAll = async (): Promise<void> => {
  for (const table of ["leases", "sandboxes", "workspaces", "decisions"] as const)
    await store.db.deleteFrom(table).execute()
}

/** Leaves the files of a workspace that the store does not know any more. */
const leaveFiles = async (): Promise<void> => {
  const { sandbox } = await sandboxes.workspaces.up(spec, { mode: "fresh" }, signal)
  await sandboxes.requests.stop(sandbox, { force: true })
  await forgetAll()
}

const archive = async function* (...chunks: (string | Error)[]) {
  for (const chunk of chunks) {
    if (chunk instanceof Error) throw chunk
    yield Buffer.from(chunk)
  }
}

const slugs = async () =>
  (await store.db.selectFrom("workspaces").select("slug").execute()).map(({ slug }) => slug)

it("refuses an import and a fork to the name of files that no workspace owns, and keeps the files", async () => {
  await leaveFiles()
  const refused = { code: "workspace.files_left" }
  await expect(
    sandboxes.copies.importFrom(app, archive(new Error("a bad archive")), signal),
  ).rejects.toMatchObject(refused)
  const origin = WorkspaceSpec.parse({ slug: "origin" })
  const { sandbox } = await sandboxes.workspaces.up(origin, { mode: "fresh" }, signal)
  await expect(
    sandboxes.copies.fork(sandbox, app, { signal, onProgress: () => {} }),
  ).rejects.toMatchObject(refused)
  expect(await slugs()).toEqual(["origin"])
  // The files are still there.
  await expect(sandboxes.workspaces.up(spec, { mode: "fresh" }, signal)).rejects.toMatchObject(
    refused,
  )
})

it("refuses an import to the name of a sandbox that no workspace owns", async () => {
  const identity = { sandbox: newId.sandbox(), installation: newId.installation() }
  backend.plant({ ...identity, workspace: app, configHash: OLD_CONFIG }, "exited")
  await expect(sandboxes.copies.importFrom(app, archive("x"), signal)).rejects.toMatchObject({
    code: "workspace.files_left",
  })
  expect(await slugs()).toEqual([])
})

it("gives a new workspace no files of an earlier one of its name, unless these are replaced", async () => {
  await leaveFiles()
  await expect(sandboxes.workspaces.up(spec, { mode: "fresh" }, signal)).rejects.toMatchObject({
    code: "workspace.files_left",
  })
  expect(await slugs()).toEqual([])
  await sandboxes.workspaces.up(spec, { mode: "fresh", replace: true }, signal)
  expect(await slugs()).toEqual([app])
})

it("leaves the name of a failed import free", async () => {
  const bad = archive("x", new Error("a bad archive"))
  await expect(sandboxes.copies.importFrom(app, bad, signal)).rejects.toThrow("a bad archive")
  expect(await slugs()).toEqual([])
  expect(await sandboxes.copies.importFrom(app, archive("x"), signal)).toMatchObject({ made: true })
})

it("refuses a second import of a name while the first is under way", async () => {
  const upload = Promise.withResolvers<void>()
  const slow = (async function* () {
    await upload.promise
    yield Buffer.from("x")
  })()
  const first = sandboxes.copies.importFrom(app, slow, signal)
  await expect.poll(slugs).toEqual([app])
  await expect(sandboxes.copies.importFrom(app, archive("x"), signal)).rejects.toMatchObject({
    code: "workspace.exists",
  })
  upload.resolve()
  expect(await first).toMatchObject({ made: true })
})

it("leaves no workspace of an import that is cancelled before its sandbox is begun", async () => {
  const cancelling = new AbortController()
  prepare = async () => {
    cancelling.abort()
    cancelling.signal.throwIfAborted()
  }
  await expect(sandboxes.copies.importFrom(app, archive("x"), cancelling.signal)).rejects.toThrow()
  expect(await slugs()).toEqual([])
  prepare = async () => {}
  expect(await sandboxes.copies.importFrom(app, archive("x"), signal)).toMatchObject({ made: true })
})

it.each(["create", "start"])(
  "leaves nothing of an import whose sandbox cannot be made: %s fails",
  async (failing) => {
    beforeCall = (call) => {
      if (call === failing) throw new BerthError("backend.disk_full", "the engine's disk is full")
    }
    await expect(sandboxes.copies.importFrom(app, archive("x"), signal)).rejects.toMatchObject({
      code: "backend.disk_full",
    })
    expect(await slugs()).toEqual([])
    expect(backend.all).toEqual([])
    beforeCall = () => {}
    expect(await sandboxes.copies.importFrom(app, archive("x"), signal)).toMatchObject({
      made: true,
    })
  },
)

it("removes a workspace without a sandbox by its name, and refuses that for one with a sandbox", async () => {
  await sandboxes.workspaces.save(spec, {}, signal)
  await sandboxes.workspaces.remove(app)
  expect(await slugs()).toEqual([])
  await expect(sandboxes.workspaces.remove(app)).rejects.toMatchObject({ code: "not_found" })
  await sandboxes.workspaces.up(spec, { mode: "fresh" }, signal)
  await expect(sandboxes.workspaces.remove(app)).rejects.toMatchObject({ code: "sandbox.in_use" })
})
