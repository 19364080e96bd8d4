import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId, Slug } from "@berth/protocol/ids"
import { ConfigHash, SandboxConfig } from "@berth/protocol/sandbox"
import { expect, it, onTestFinished } from "vitest"
import { ExistingSandboxes } from "./existing.ts"
import { type SandboxState, stateDirectory } from "./state.ts"

const begin = async () => {
  const root = await mkdtemp(join(tmpdir(), "berth-existing-"))
  onTestFinished(() => rm(root, { recursive: true }))
  const states = stateDirectory(root)
  await states.prepare()
  const sandbox = newId.sandbox()
  const state: SandboxState = {
    version: 1,
    spec: {
      identity: {
        installation: newId.installation(),
        workspace: Slug.parse("a"),
        sandbox,
        configHash: ConfigHash.parse("0".repeat(64)),
      },
      config: SandboxConfig.parse({
        system: { kind: "host", contents: "0".repeat(64) },
        command: ["/bin/true"],
      }),
    },
    progress: "created",
    createdAt: new Date().toISOString(),
    unheldLimits: [],
  }
  await states.begin(state)
  return { existing: new ExistingSandboxes(states), sandbox }
}

it("finds the sandboxes on disk, except one that is being made or removed", async () => {
  const { existing, sandbox } = await begin()
  expect(await existing.find(sandbox)).toMatchObject({ progress: "created" })
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
