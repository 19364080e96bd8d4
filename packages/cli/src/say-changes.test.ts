import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it } from "vitest"
import { changesOf, sayChanges } from "./say-changes.ts"
import { describedBy } from "./workspace-flags.ts"

const known = WorkspaceSpec.parse({ slug: "app", environment: { A: "1" } })
const said = (flags: Parameters<typeof describedBy>[0]) =>
  sayChanges(changesOf(known, describedBy(flags, known)))

it("the report of changes names the keys that flags set, without the values of variables", () => {
  const agent = { agent: "opencode", model: "a/b", key: ["K"], permissions: "ask" }
  expect(
    said({
      ...agent,
      network: "none",
      hostPort: ["11434", "5432"],
      cpus: "1",
      env: ["A=1", "B=secret"],
    }),
  ).toEqual([
    "agent: opencode with a/b, permissions ask, keys K (set for this workspace)",
    "network: none (set for this workspace)",
    "host ports: 11434, 5432 (set for this workspace)",
    "cpus: 1 (set for this workspace)",
    "env: B (set for this workspace)",
  ])
})

it("the report of changes is silent about flags that change nothing", () => {
  expect(said({ agent: "shell", network: "open", env: ["A=1"] })).toEqual([])
})

it.each(["80", "65536", "http", "11434x", ""])("refuses %j as a port of the host", (hostPort) => {
  expect(() => describedBy({ hostPort: [hostPort] })).toThrow(
    `--host-port is a port from 1024 to 65535, not ${hostPort}`,
  )
})
