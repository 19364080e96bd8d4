import { describe, expect, it } from "vitest"
import { WorkspaceSpec } from "./workspace.ts"

const MIB = 1024 * 1024

/** The path of the first problem of a refused spec. */
const problemAt = (spec: unknown): string | undefined =>
  WorkspaceSpec.safeParse(spec).error?.issues[0]?.path.join(".")

describe("WorkspaceSpec", () => {
  it("fills in what is left out", () => {
    expect(WorkspaceSpec.parse({ slug: "shop" })).toMatchObject({
      slug: "shop",
      repos: [],
      system: { kind: "host" },
      hooks: { setup: ".berth/setup.sh", start: ".berth/start.sh" },
      limits: { memoryBytes: 4096 * MIB, pids: 2048 },
      network: { kind: "open", allow: [] },
      agent: { kind: "shell" },
    })
  })

  it.each([
    ["an unknown key", { slug: "shop", colour: "red" }, ""],
    ["a slug that is a path", { slug: "../shop" }, "slug"],
    [
      "a repo with a password",
      { slug: "shop", repos: [{ url: "https://me:secret@host/r" }] },
      "repos.0.url",
    ],
    [
      "a repo with a token",
      { slug: "shop", repos: [{ url: "https://TOKEN@host/r" }] },
      "repos.0.url",
    ],
    [
      "a repo with an empty user",
      { slug: "shop", repos: [{ url: "HTTPS://@host/r" }] },
      "repos.0.url",
    ],
    [
      "a repo with a user behind a backslash",
      { slug: "shop", repos: [{ url: "https:\\\\me@host/r" }] },
      "repos.0.url",
    ],
    [
      "a repo with a password for ssh",
      { slug: "shop", repos: [{ url: "git+ssh2://me:a@b@host/r" }] },
      "repos.0.url",
    ],
    [
      "a repo with a line break",
      { slug: "shop", repos: [{ url: "https://host/r\nhost=evil" }] },
      "repos.0.url",
    ],
    [
      "a repo that is an option",
      { slug: "shop", repos: [{ url: "--upload-pack=x" }] },
      "repos.0.url",
    ],
    ["a ref that is an option", { slug: "shop", repos: [{ url: "/r", ref: "-x" }] }, "repos.0.ref"],
    ["a ref with a range", { slug: "shop", repos: [{ url: "/r", ref: "a..b" }] }, "repos.0.ref"],
    [
      "a directory outside",
      { slug: "shop", repos: [{ url: "/r", directory: "../x" }] },
      "repos.0.directory",
    ],
    ["too little memory", { slug: "shop", limits: { memoryBytes: MIB } }, "limits.memoryBytes"],
    ["a fraction of a process", { slug: "shop", limits: { pids: 64.5 } }, "limits.pids"],
    ["a variable with a NUL", { slug: "shop", environment: { A: "x\0y" } }, "environment.A"],
    ["a hook outside", { slug: "shop", hooks: { start: "/bin/sh" } }, "hooks.start"],
    ["an unknown agent", { slug: "shop", agent: { kind: "oracle" } }, "agent.kind"],
    ["an unknown cache", { slug: "shop", caches: ["maven"] }, "caches.0"],
    [
      "the port 0",
      { slug: "shop", sidecars: [{ name: "web", command: ["x"], port: 0 }] },
      "sidecars.0.port",
    ],
    ["a sidecar that runs nothing", { slug: "shop", sidecars: [{ name: "web" }] }, "sidecars.0"],
    [
      "a sidecar that runs two things",
      {
        slug: "shop",
        sidecars: [{ name: "web", command: ["x"], builtin: "terminal", port: 7681 }],
      },
      "sidecars.0",
    ],
    [
      "a builtin without a port",
      { slug: "shop", sidecars: [{ name: "web", builtin: "terminal" }] },
      "sidecars.0",
    ],
    [
      "an unknown builtin",
      { slug: "shop", sidecars: [{ name: "web", builtin: "oracle", port: 7681 }] },
      "sidecars.0.builtin",
    ],
    [
      "a sidecar with an HTTP check and no port",
      { slug: "shop", sidecars: [{ name: "web", command: ["x"], ready: { http: "/" } }] },
      "sidecars.0",
    ],
  ])("refuses %s, and says where", (_, spec, path) => {
    expect(problemAt(spec)).toBe(path)
  })

  it("[R2.11] takes sidecars of the user and of Berth, which are optional unless they are said to be required", () => {
    const { sidecars } = WorkspaceSpec.parse({
      slug: "shop",
      sidecars: [
        { name: "terminal", builtin: "terminal", port: 7681 },
        { name: "db", command: ["postgres"], ready: { line: "ready" }, required: true },
      ],
    })
    expect(sidecars).toMatchObject([
      { builtin: "terminal", port: 7681, required: false, afterHooks: false },
      { command: ["postgres"], required: true },
    ])
  })

  it("refuses a variable's name that no shell takes", () => {
    expect(WorkspaceSpec.safeParse({ slug: "shop", environment: { "A B": "x" } }).success).toBe(
      false,
    )
  })
})

describe("sidecars", () => {
  const workspace = (sidecars: unknown) => WorkspaceSpec.safeParse({ slug: "app", sidecars })

  it("have different names and ports", () => {
    const web = { name: "web", command: ["serve"], port: 3000 }
    expect(workspace([web, { ...web, name: "docs", port: 3001 }]).success).toBe(true)
    expect(workspace([web, { ...web, port: 3001 }]).success).toBe(false)
    expect(workspace([web, { ...web, name: "docs" }]).success).toBe(false)
  })

  it("are no more than a boot has room for", () => {
    const many = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ name: `s${n}`, command: ["x"] }))
    expect(workspace(many(32)).success).toBe(true)
    expect(workspace(many(33)).success).toBe(false)
  })
})

it.each([
  ["opencode", "some/model", true],
  ["opencode", "some/deep/model", true],
  ["opencode", "model", false],
  ["opencode", "/model", false],
  ["opencode", "some/", false],
  ["claude", "some-model", true],
  ["codex", "some-model", true],
  ["codex", "some model", false],
])("a model of %s named %s: %s", (kind, model, isValid) => {
  const agent = { kind, model }
  expect(WorkspaceSpec.safeParse({ slug: "app", agent }).success).toBe(isValid)
})
