import { configHash } from "@berth/backends/config-hash"
import { ToolboxId } from "@berth/protocol/toolbox"
import { WorkspaceSpec, type WorkspaceSpecInput } from "@berth/protocol/workspace"
import { describe, expect, it } from "vitest"
import { plannedRepos, workspaceRepos } from "../state/repos.ts"
import { type HostSettings, sandboxConfig } from "./config.ts"

const toolbox = (digit: string) => {
  const id = ToolboxId.parse(`tb-${digit.repeat(40)}`)
  return { id, directory: `/data/toolbox/${id}` }
}

const BARE: HostSettings = { variables: {}, certificates: [] }

const configOf = (
  spec: Partial<WorkspaceSpecInput> = {},
  box = toolbox("0"),
  host: Partial<HostSettings> = {},
) => {
  const workspace = WorkspaceSpec.parse({ slug: "app", ...spec })
  const repos = plannedRepos(workspaceRepos(workspace.repos))
  return sandboxConfig(workspace, { kind: "host" }, repos, box, { ...BARE, ...host })
}
const hash = (...given: Parameters<typeof configOf>) => configHash(configOf(...given))

describe("a workspace's config", () => {
  it("[R1.2] keeps its hash when defaults are written out", () => {
    expect(hash()).toBe(hash({ sidecars: [], environment: {} }))
  })

  it.each<[string, Partial<WorkspaceSpecInput>]>([
    ["environment", { environment: { A: "1" } }],
    ["agent", { agent: { kind: "opencode" } }],
    ["hooks", { hooks: { start: "go.sh" } }],
    ["repos", { repos: [{ url: "https://example.com/a" }] }],
    ["sidecars", { sidecars: [{ name: "web", command: ["serve"] }] }],
    ["limits", { limits: { pids: 77 } }],
    ["caches", { caches: ["npm"] }],
    ["network", { network: { kind: "none" } }],
    ["host ports", { hostPorts: [11434] }],
  ])("[R1.2] changes its hash with the workspace's %s", (_, spec) => {
    expect(hash(spec)).not.toBe(hash())
  })

  it("[R1.2] changes its hash with the host's proxy, unless it has no network", () => {
    const host = { variables: { HTTPS_PROXY: "http://proxy.example:3128" } }
    const none = { network: { kind: "none" } } as const
    expect(hash({}, toolbox("0"), host)).not.toBe(hash())
    expect(hash(none, toolbox("0"), host)).toBe(hash(none))
  })

  it("[R1.2] changes its hash with the host's authorities, unless it has no network", () => {
    const host = { certificates: ["one in PEM\n"] }
    const none = { network: { kind: "none" } } as const
    expect(hash({}, toolbox("0"), host)).not.toBe(hash())
    expect(hash({}, toolbox("0"), host)).not.toBe(hash({}, toolbox("0"), { certificates: ["two"] }))
    expect(hash(none, toolbox("0"), host)).toBe(hash(none))
  })

  it("names the files with the host's authorities to programs, unless the workspace names its own", () => {
    const host = { certificates: ["one in PEM\n"] }
    const own = { environment: { GIT_SSL_CAINFO: "/workspace/own.pem" } }
    expect(configOf(own, toolbox("0"), host).boot).toMatchObject({
      certificates: host.certificates,
      environment: {
        NODE_EXTRA_CA_CERTS: "/run/berth-certificates/added.pem",
        SSL_CERT_FILE: "/run/berth-certificates/all.pem",
        GIT_SSL_CAINFO: "/workspace/own.pem",
      },
    })
    expect(configOf().boot?.environment).toEqual({})
    expect(configOf().boot).not.toHaveProperty("certificates")
  })

  it("[R1.2] keeps its hash with other limits of the disk, which are held outside of the sandbox", () => {
    expect(hash({ limits: { diskBytes: 2 ** 30, diskInodes: 10_000 } })).toBe(hash())
  })

  it("[R1.2] keeps its hash with its host ports in another order", () => {
    expect(hash({ hostPorts: [11434, 5432] })).toBe(hash({ hostPorts: [5432, 11434] }))
  })

  it("[R1.2] keeps its hash with its caches in another order, or one of them named twice", () => {
    expect(hash({ caches: ["npm", "go", "npm"] })).toBe(hash({ caches: ["go", "npm"] }))
  })

  it("[R1.2] changes its hash with the toolbox, which brings supervisor and agents", () => {
    expect(hash({}, toolbox("1"))).not.toBe(hash())
  })

  it("[R1.2] changes its hash with the system, also where the workspace is the same", () => {
    const workspace = WorkspaceSpec.parse({ slug: "app" })
    const hashes = ["0", "1"].map((digit) => {
      const system = { kind: "image" as const, digest: `sha256:${digit.repeat(64)}` }
      return configHash(sandboxConfig(workspace, system, [], toolbox("0"), BARE))
    })
    expect(new Set([...hashes, hash()]).size).toBe(3)
  })
})
