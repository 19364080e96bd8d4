import { Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import type { Workspace, Workspaces } from "../state/workspaces.ts"
import { openWants } from "./wanted.ts"

const { signal } = new AbortController()
const slug = Slug.parse("one")
const specOf = (version: number): WorkspaceSpec =>
  WorkspaceSpec.parse({ slug, environment: { VERSION: String(version) } })

it("notes nothing of a workspace that changed while it was read", async () => {
  let read = Promise.withResolvers<Workspace>()
  const wants = openWants({
    environment: {},
    certificates: () => ({ added: [], warnings: [] }),
    backend: { resolveSystem: async () => ({ kind: "host" }) },
    workspaces: { get: () => read.promise } as unknown as Workspaces,
    toolbox: async () => ({ id: "0".repeat(64), directory: "/toolbox" }) as never,
  })
  const { hash } = await wants.of(specOf(2), { signal, isTold: false })
  wants.refresh()
  const asked = wants.known(slug)
  wants.refresh()
  read.resolve({ spec: specOf(1) } as Workspace)
  expect(await asked).toBeUndefined()
  read = Promise.withResolvers()
  read.resolve({ spec: specOf(2) } as Workspace)
  expect(await wants.known(slug)).toBe(hash)
})

it("prepares an agent's own toolbox for a caller that asks for a sandbox, and not for a look", async () => {
  const asked: string[] = []
  const codex = WorkspaceSpec.parse({ slug, agent: { kind: "codex" } })
  const wants = openWants({
    environment: {},
    certificates: () => ({ added: [], warnings: [] }),
    backend: { resolveSystem: async () => ({ kind: "host" }) },
    workspaces: { get: async () => ({ spec: codex }) } as unknown as Workspaces,
    toolbox: async (agent) => {
      asked.push(agent)
      return { id: (agent === "codex" ? "1" : "0").repeat(64), directory: `/${agent}` } as never
    },
  })
  await wants.prepare()
  expect(await wants.known(slug)).toBeUndefined()
  expect(asked).toEqual(["shell"])
  const { config, hash } = await wants.of(codex, { signal, isTold: false })
  expect(config.mounts).toContainEqual(expect.objectContaining({ source: "/codex" }))
  wants.refresh()
  expect(await wants.known(slug)).toBe(hash)
})
