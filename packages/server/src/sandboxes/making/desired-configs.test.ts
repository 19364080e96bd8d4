import { Slug } from "@berth/protocol/ids"
import { ToolboxId } from "@berth/protocol/toolbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import { systemClock } from "../state/clock.ts"
import type { Workspace } from "../state/workspace.ts"
import { openWorkspaces, type Workspaces } from "../state/workspaces.ts"
import { storeOfFile } from "../testing/store.ts"
import { openDesiredConfigs } from "./desired-configs.ts"

const { signal } = new AbortController()
const slug = Slug.parse("one")
const store = storeOfFile()
const specOf = (version: number): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug, environment: { VERSION: String(version) } })

it("notes nothing of a workspace that changed while it was read", async () => {
  let read = Promise.withResolvers<Workspace>()
  const desiredConfigs = openDesiredConfigs({
    environment: {},
    certificates: () => ({ added: [], warnings: [] }),
    backend: { resolveSystem: async () => ({ kind: "host" }) },
    workspaces: { get: () => read.promise } as unknown as Workspaces,
    toolbox: async () => ({ id: "0".repeat(64), directory: "/toolbox" }) as never,
  })
  const { hash } = await desiredConfigs.of(specOf(2), { signal, isTold: false })
  desiredConfigs.refresh()
  const asked = desiredConfigs.known(slug)
  desiredConfigs.refresh()
  read.resolve({ spec: specOf(1) } as Workspace)
  expect(await asked).toBeUndefined()
  read = Promise.withResolvers()
  read.resolve({ spec: specOf(2) } as Workspace)
  expect(await desiredConfigs.known(slug)).toBe(hash)
})

it("[R1.6] does not note a workspace's hash from before a change after it", async () => {
  const workspaces = openWorkspaces(store.db, systemClock)
  let held: Promise<void> | undefined
  const desiredConfigs = openDesiredConfigs({
    environment: {},
    certificates: () => ({ added: [], warnings: [] }),
    workspaces,
    backend: {
      resolveSystem: async () => {
        await held
        return { kind: "host" }
      },
    },
    toolbox: async () => ({ id: ToolboxId.parse(`tb-${"0".repeat(40)}`), directory: "/toolbox" }),
  })
  await desiredConfigs.prepare()
  await workspaces.put(specOf(1))
  const gate = Promise.withResolvers<void>()
  held = gate.promise
  const early = desiredConfigs.known(slug)
  await new Promise(setImmediate)
  held = undefined
  await workspaces.put(specOf(2))
  desiredConfigs.refresh()
  const { hash } = await desiredConfigs.of(specOf(2), {
    signal: new AbortController().signal,
    isTold: false,
  })
  gate.resolve()
  expect(await early).toBeUndefined()
  expect(await desiredConfigs.known(slug)).toBe(hash)
})

it("prepares an agent's own toolbox for a caller that asks for a sandbox, and not for a look", async () => {
  const asked: string[] = []
  const codex = WorkspaceSpec.parse({ slug, agent: { kind: "codex" } })
  const desiredConfigs = openDesiredConfigs({
    environment: {},
    certificates: () => ({ added: [], warnings: [] }),
    backend: { resolveSystem: async () => ({ kind: "host" }) },
    workspaces: { get: async () => ({ spec: codex }) } as unknown as Workspaces,
    toolbox: async (agent) => {
      asked.push(agent)
      return { id: (agent === "codex" ? "1" : "0").repeat(64), directory: `/${agent}` } as never
    },
  })
  await desiredConfigs.prepare()
  expect(await desiredConfigs.known(slug)).toBeUndefined()
  expect(asked).toEqual(["shell"])
  const { config, hash } = await desiredConfigs.of(codex, { signal, isTold: false })
  expect(config.mounts).toContainEqual(expect.objectContaining({ source: "/codex" }))
  desiredConfigs.refresh()
  expect(await desiredConfigs.known(slug)).toBe(hash)
})
