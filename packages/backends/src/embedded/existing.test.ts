import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { ExistingSandboxes } from "./existing.ts"
import { StateDirectory } from "./state.ts"
import { stateOf } from "./testing/state.ts"

const begin = async () => {
  const root = await mkdtemp(join(tmpdir(), "berth-existing-"))
  onTestFinished(() => rm(root, { recursive: true }))
  const states = new StateDirectory(root)
  await states.prepare()
  const state = stateOf()
  await states.begin(state)
  return { existing: new ExistingSandboxes(states), sandbox: state.spec.identity.sandbox }
}

it("finds the sandboxes on disk, except one that is being made or removed", async () => {
  const { existing, sandbox } = await begin()
  expect(await existing.find(sandbox)).toMatchObject({ progress: "creating" })
  await existing.hideDuring(sandbox, async () => {
    expect(await existing.find(sandbox)).toBeUndefined()
    expect(await existing.findAll()).toEqual([])
  })
  expect(await existing.findAll()).toHaveLength(1)
})

it("finds a sandbox again whose removal failed", async () => {
  const { existing, sandbox } = await begin()
  const failed = existing.hideDuring(sandbox, () => Promise.reject(new Error("busy")))
  await expect(failed).rejects.toThrow("busy")
  expect(await existing.find(sandbox)).toBeDefined()
})
