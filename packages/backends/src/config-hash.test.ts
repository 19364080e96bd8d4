import { WorkspaceBoot } from "@berth/protocol/boot-plan"
import { SandboxConfig } from "@berth/protocol/sandbox"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { configHash } from "./config-hash.ts"

const DIGEST = `sha256:${"ab".repeat(32)}`

const base: SandboxConfig = SandboxConfig.parse({
  system: { kind: "image", digest: DIGEST },
  command: ["/opt/berth/supervisor"],
  environment: { A: "1", B: "2" },
  mounts: [
    { kind: "directory", source: "/srv/a", target: "/a" },
    { kind: "directory", source: "/srv/b", target: "/b", readOnly: true },
  ],
  network: { kind: "open", allow: ["10.1.0.0/16", "192.168.7.0/24"] },
})

const segment = fc.stringMatching(/^[a-z0-9]{1,8}$/)
const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((parts) => `/${parts.join("/")}`)
const config = fc.record({
  system: fc.oneof(
    fc.constant({ kind: "host" as const }),
    path.map((p) => ({ kind: "rootfs" as const, path: p })),
    fc
      .stringMatching(/^[0-9a-f]{64}$/)
      .map((hex) => ({ kind: "image" as const, digest: `sha256:${hex}` })),
  ),
  command: fc.array(segment, { minLength: 1, maxLength: 4 }),
  environment: fc.dictionary(fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,6}$/), segment, {
    noNullPrototype: true,
  }),
  mounts: fc.uniqueArray(
    fc.record({
      kind: fc.constant("directory" as const),
      source: path,
      target: path,
      readOnly: fc.boolean(),
    }),
    { selector: (mount) => mount.target, maxLength: 4 },
  ),
  network: fc.oneof(
    fc.constant({ kind: "none" as const }),
    fc
      .uniqueArray(fc.ipV4().map((ip) => `${ip}/32`))
      .map((allow) => ({ kind: "open" as const, allow })),
  ),
  limits: fc.record({
    memoryBytes: fc.integer({ min: 2 ** 25, max: 2 ** 40 }),
    pids: fc.integer({ min: 16, max: 9999 }),
  }),
})

const reversedKeys = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reversedKeys)
  if (value === null || typeof value !== "object") return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, reversedKeys(inner)]),
  )
}

describe("configHash", () => {
  it("[R1.2] gives the same hash for the same config, whatever the order of keys", () => {
    fc.assert(
      fc.property(config, (any) => {
        expect(configHash(reversedKeys(any) as typeof any)).toBe(configHash(any))
      }),
    )
  })

  it("[R1.2] gives the same hash whether a default is left out or written", () => {
    fc.assert(
      fc.property(config, (any) => {
        expect(configHash(SandboxConfig.parse(any))).toBe(configHash(any))
      }),
    )
  })

  it("[R1.2] ignores the order of mounts, allowed ranges and capabilities", () => {
    const network = { kind: "open" as const, allow: ["192.168.7.0/24", "10.1.0.0/16"] }
    const capabilities = base.hardening.capabilities.toReversed()
    const hardening = { ...base.hardening, capabilities }
    const mounts = base.mounts.toReversed()
    expect(configHash({ ...base, mounts, network, hardening })).toBe(configHash(base))
  })

  it("[R1.2] gives equal values that are written differently the same hash", () => {
    const sloppy = ["10.1.2.3/16", "192.168.7.255/24", "192.168.7.0/24"]
    expect(configHash({ ...base, network: { kind: "open", allow: sloppy } })).toBe(configHash(base))
    expect(configHash({ ...base, limits: { ...base.limits, cpus: 2.0 } })).toBe(configHash(base))
  })

  const [mountA, mountB] = base.mounts
  if (!mountA || !mountB) throw new Error("the base config has two mounts")
  const repo = (directory: string) => ({ directory, source: { kind: "host" as const } })
  const boot = WorkspaceBoot.parse({
    repos: [repo("a"), repo("b")],
    hooks: {},
    environment: { A: "1" },
    agent: { kind: "shell" },
    sidecars: [],
  })
  const changes: Record<string, Partial<SandboxConfig>> = {
    "the system's kind": { system: { kind: "host" } },
    "the image's digest": { system: { kind: "image", digest: `sha256:${"cd".repeat(32)}` } },
    "the rootfs path": { system: { kind: "rootfs", path: "/srv/rootfs" } },
    "the rootfs's contents": {
      system: { kind: "rootfs", path: "/srv/rootfs", contents: "ab".repeat(32) },
    },
    "the host's contents": { system: { kind: "host", contents: "cd".repeat(32) } },
    "the command": { command: ["/opt/berth/other"] },
    "an argument's place": { command: ["/opt/berth/supervisor", "--x"] },
    "a variable's value": { environment: { A: "1", B: "3" } },
    "a variable's name": { environment: { A: "1", C: "2" } },
    "one variable less": { environment: { A: "1" } },
    "a mount's source": {
      mounts: [{ ...mountA, kind: "directory", source: "/srv/c", readOnly: false }, mountB],
    },
    "a mount's target": { mounts: [{ ...mountA, target: "/c" }, mountB] },
    "a mount's mode": {
      mounts: [{ kind: "directory", source: "/srv/a", target: "/a", readOnly: true }, mountB],
    },
    "one mount less": { mounts: [mountA] },
    "a cache": {
      mounts: [...base.mounts, { kind: "cache", cache: "npm", target: "/home/agent/.npm" }],
    },
    "the memory": { limits: { ...base.limits, memoryBytes: base.limits.memoryBytes + 1 } },
    "the cpus": { limits: { ...base.limits, cpus: base.limits.cpus + 0.5 } },
    "the pids": { limits: { ...base.limits, pids: base.limits.pids + 1 } },
    "the open files": { limits: { ...base.limits, openFiles: base.limits.openFiles + 1 } },
    "the size of /tmp": { limits: { ...base.limits, tmpBytes: base.limits.tmpBytes + 1 } },
    "the network's kind": { network: { kind: "none" } },
    "an allowed range": { network: { kind: "open", allow: ["10.1.0.0/16"] } },
    "a capability": { hardening: { ...base.hardening, capabilities: ["CHOWN"] } },
    "no-new-privileges": { hardening: { ...base.hardening, noNewPrivileges: false } },
    seccomp: { hardening: { ...base.hardening, seccomp: "off" } },
    "the plan of its supervisor": { boot: { ...boot, environment: { A: "2" } } },
    "the order of its repos": { boot: { ...boot, repos: boot.repos.toReversed() } },
    "the agent's generation": { agentGeneration: "2" },
    "the supervisor's generation": { supervisorGeneration: "2" },
  }

  it("[R1.2] covers every field of the config: a new field needs a change here", () => {
    const fields = new Set(Object.values(changes).flatMap((change) => Object.keys(change)))
    expect([...fields].sort()).toEqual(Object.keys(SandboxConfig.shape).sort())
    const limits = Object.entries(changes).flatMap(([, { limits: changed }]) =>
      changed
        ? Object.keys(changed).filter(
            (key) => changed[key as "pids"] !== base.limits[key as "pids"],
          )
        : [],
    )
    expect(limits.sort()).toEqual(Object.keys(SandboxConfig.shape.limits.unwrap().shape).sort())
  })

  it.each(Object.entries(changes))("[R1.2] changes with %s", (_, change) => {
    expect(configHash({ ...base, ...change })).not.toBe(configHash(base))
  })

  it("[R1.2] gives every one of these changes a hash of its own", () => {
    const hashes = Object.values(changes).map((change) => configHash({ ...base, ...change }))
    expect(new Set(hashes).size).toBe(hashes.length)
  })
})
