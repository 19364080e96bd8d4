import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import { WorkspaceSpec, type WorkspaceSpecInput } from "@berth/protocol/workspace"
import { describe, expect, it } from "vitest"
import { git, makeRepo } from "../../repos/testing/host-repos.ts"
import { openRequireModel } from "./require-model.ts"

const { signal } = new AbortController()
const HOST = { kind: "host" } as SystemIdentity

const check = (spec: Partial<WorkspaceSpecInput>, system = HOST): Promise<void> => {
  const agent = { kind: "opencode" } as const
  const workspace = WorkspaceSpec.parse({ slug: "app", agent, ...spec })
  return openRequireModel({ backend: { resolveSystem: async () => system } })(workspace, signal)
}

const makeRepoWith = (file: string): string => {
  const { path } = makeRepo()
  mkdirSync(join(path, dirname(file)), { recursive: true })
  writeFileSync(join(path, file), "")
  git(path, "add", file)
  git(path, "commit", "--quiet", "-m", "a file")
  return path
}

describe("a prompt to OpenCode in a new workspace", () => {
  it.each(["README", "src/opencode.json"])("is refused in a repo with %s alone", async (file) => {
    await expect(check({ repos: [{ url: makeRepoWith(file) }] })).rejects.toMatchObject({
      code: "agent.not_set_up",
      details: { workspace: "app" },
    })
  })

  it("is refused without a repo", async () => {
    await expect(check({})).rejects.toMatchObject({ code: "agent.not_set_up" })
  })

  it.each([
    ...["opencode.json", "opencode.jsonc", ".opencode/agent/build.md"],
    ...[".berth/setup.sh", ".berth/start.sh", ".openinspect/setup.sh"],
  ])("is taken in a repo with %s, which can bring a model", async (file) => {
    await check({ repos: [{ url: makeRepoWith(file) }] })
  })

  it("is taken in a repo with a hook that the workspace names", async () => {
    const hooks = { start: "tools/begin.sh" }
    await check({ repos: [{ url: makeRepoWith("tools/begin.sh") }], hooks })
  })

  it("is taken where the ref has the configuration, though HEAD has not", async () => {
    const url = makeRepoWith("opencode.json")
    git(url, "branch", "with")
    git(url, "rm", "--quiet", "opencode.json")
    git(url, "commit", "--quiet", "-m", "without")
    await check({ repos: [{ url, ref: "with" }] })
    await expect(check({ repos: [{ url }] })).rejects.toMatchObject({ code: "agent.not_set_up" })
  })

  it.each<[string, Partial<WorkspaceSpecInput>]>([
    ["a model", { agent: { kind: "opencode", model: "some/best" } }],
    ["a key", { agent: { kind: "opencode", keys: ["SOME_API_KEY"] } }],
    ["a variable", { environment: { SOME_API_KEY: "x" } }],
    ["a sidecar", { sidecars: [{ name: "one", command: ["true"] }] }],
    ["a repo elsewhere", { repos: [{ url: "https://example.com/app.git" }] }],
    ["another agent", { agent: { kind: "shell" } }],
  ])("is taken with %s", async (_, spec) => {
    await check(spec)
  })

  it("is taken where the system is an image, which can have a configuration", async () => {
    await check({}, { kind: "image" } as SystemIdentity)
  })
})
