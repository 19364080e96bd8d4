import { existsSync } from "node:fs"
import { link, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { pin, plantDeepTree } from "@berth/host/testing/stubborn"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import { openHarness } from "./testing/harness.ts"
import { specFor } from "./testing/spec.ts"

const NOT_PERMITTED = {
  code: "backend.engine_failed",
  details: { engineSaid: expect.stringContaining("Operation not permitted") },
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("a removal", () => {
  let harness: Awaited<ReturnType<typeof openHarness>>
  let empty: Awaited<ReturnType<(typeof harness)["census"]>>
  beforeAll(async () => {
    harness = await openHarness()
    empty = await harness.census()
  })
  afterAll(() => harness.close())

  const workspace = Slug.parse("test")
  const filesOf = (sandbox: SandboxId) => join(harness.directory, "sandboxes", sandbox)
  const create = async (): Promise<SandboxId> => {
    const spec = specFor(harness.installation)
    await harness.backend.create(spec)
    return spec.identity.sandbox
  }

  it("deletes a tree deeper than a path may be long, in a cache and in a sandbox", async () => {
    await harness.backend.ensureCaches(workspace, ["npm"])
    const caches = join(harness.directory, "caches")
    plantDeepTree(join(caches, workspace, "npm"))
    expect(await harness.backend.removeCache(workspace, "npm")).toBe(true)
    expect(await readdir(join(caches, ".trash"))).toEqual([])
    const sandbox = await create()
    plantDeepTree(join(filesOf(sandbox), "workspace"))
    await harness.backend.remove(sandbox)
    expect(await harness.census()).toEqual(empty)
  })

  it("[R1.4] that fails for one cache fails for no other, and is tried again by the next server", async () => {
    await harness.backend.ensureCaches(workspace, ["npm", "pip"])
    const caches = join(harness.directory, "caches")
    // The removal renames what it deletes; this name stays.
    const outside = join(harness.directory, "pinned")
    await writeFile(outside, "")
    await link(outside, join(caches, workspace, "npm", "pinned"))
    const release = pin(outside)
    await expect(harness.backend.removeCache(workspace, "npm")).rejects.toMatchObject(NOT_PERMITTED)
    expect(await harness.backend.removeCache(workspace, "pip")).toBe(true)
    const [left = ""] = await readdir(join(caches, ".trash"))
    const pinned = join(caches, ".trash", left, "pinned")
    expect(existsSync(pinned)).toBe(true)
    release()
    expect(await (await harness.reopen()).repair()).toEqual([])
    expect(existsSync(pinned)).toBe(false)
  })

  it("[R1.4] that fails for a sandbox leaves it known, for the next attempt to find", async () => {
    const sandbox = await create()
    const release = pin(join(filesOf(sandbox), "log"))
    await expect(harness.backend.remove(sandbox)).rejects.toMatchObject(NOT_PERMITTED)
    expect((await readdir(filesOf(sandbox))).toSorted()).toEqual(["log", "state.json"])
    expect(await harness.backend.inspect(sandbox)).toMatchObject({ state: "exited" })
    expect(await harness.backend.list()).toHaveLength(1)
    release()
    await harness.backend.remove(sandbox)
    expect(await harness.backend.inspect(sandbox)).toBeUndefined()
    expect(await harness.census()).toEqual(empty)
  })

  it("[R1.4] that fails for one sandbox does not keep the next server from the others", async () => {
    const [stuck, cut, well] = [await create(), await create(), await create()]
    for (const sandbox of [stuck, cut]) {
      const file = join(filesOf(sandbox), "state.json")
      const state = JSON.parse(await readFile(file, "utf8"))
      await writeFile(file, JSON.stringify({ ...state, progress: "removing" }))
    }
    // A removal that is killed between its last two steps leaves an empty directory.
    const bare = newId.sandbox()
    await mkdir(filesOf(bare))
    // The state of this sandbox can be neither read nor put aside.
    const torn = newId.sandbox()
    await mkdir(filesOf(torn))
    await writeFile(join(filesOf(torn), "state.json"), '{"version":1,"sp')
    const releases = [pin(join(filesOf(stuck), "log")), pin(filesOf(torn))]
    const successor = await harness.reopen()
    const unrepaired = await successor.repair()
    expect(new Map(unrepaired.map(({ sandbox, failure }) => [sandbox, failure]))).toEqual(
      new Map([
        [stuck, expect.objectContaining({ message: "remove failed" })],
        [torn, expect.objectContaining({ message: "remove failed" })],
      ]),
    )
    const found = await successor.list()
    expect(new Map(found.map(({ identity, state }) => [identity.sandbox, state]))).toEqual(
      new Map([
        [stuck, "exited"],
        [well, "created"],
      ]),
    )
    expect(existsSync(filesOf(bare))).toBe(false)
    for (const release of releases) release()
    await rm(filesOf(torn), { recursive: true })
    for (const { identity } of found) await successor.remove(identity.sandbox)
    expect(await harness.census()).toEqual(empty)
  })
})
