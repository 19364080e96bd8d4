import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { SandboxSpec } from "@berth/protocol/sandbox"
import { describe, expect, it } from "vitest"
import { type BundleInput, makeBundle } from "./bundle.ts"
import type { ConfigInput } from "./system/testing/bundles.ts"

const identity = {
  installation: newId.installation(),
  workspace: "shop",
  sandbox: newId.sandbox(),
  configHash: "a".repeat(64),
}

const bundle = (config: ConfigInput = {}, input: Partial<BundleInput> = {}) =>
  makeBundle({
    spec: SandboxSpec.parse({
      identity,
      config: { system: { kind: "host" }, command: ["sleep", "9"], ...config },
    }),
    system: {
      key: "k",
      root: "/systems/k",
      binds: [{ source: "/usr", target: "/usr", readOnly: true }],
    },
    mounts: [],
    directories: { workspace: "/s/workspace", home: "/s/home" },
    files: { etc: "/s/etc" },
    idBase: 1_879_113_728,
    cgroupPath: "/berth/sb",
    hostname: "shop",
    architecture: "x64",
    maxOpenFiles: 1_048_576,
    ...input,
  })

const mountAt = (config: ReturnType<typeof bundle>["config"], target: string) =>
  config.mounts.filter(({ destination }) => destination === target)

describe("makeBundle", () => {
  it("makes seven new namespaces, and maps root inside to an ordinary id of the host", () => {
    const { linux, process } = bundle().config
    expect(linux.namespaces.map(({ type }) => type).sort()).toEqual(
      ["cgroup", "ipc", "mount", "network", "pid", "user", "uts"].sort(),
    )
    expect(linux.namespaces.every((namespace) => !("path" in namespace))).toBe(true)
    const mapping = [{ containerID: 0, hostID: 1_879_113_728, size: 65_536 }]
    expect([linux.uidMappings, linux.gidMappings]).toEqual([mapping, mapping])
    expect(process.user).toEqual({ uid: 0, gid: 0, umask: 0o022 })
  })

  it("keeps the capabilities that the spec lists, and makes none inheritable or ambient", () => {
    const { capabilities } = bundle({ hardening: { capabilities: ["KILL", "CHOWN"] } }).config
      .process
    const kept = ["CAP_KILL", "CAP_CHOWN"]
    expect(capabilities).toEqual({
      bounding: kept,
      effective: kept,
      permitted: kept,
      inheritable: [],
      ambient: [],
    })
  })

  it("refuses a capability that does not exist", () => {
    const make = () => bundle({ hardening: { capabilities: ["FLY"] } })
    expect(make).toThrow(BerthError)
    expect(make).toThrow(expect.objectContaining({ code: "input.invalid" }))
  })

  it("starts the command under the init, in the workspace, with a plain environment", () => {
    const { process } = bundle({ environment: { LANG: "C", TOKEN: "a=b c" } }).config
    expect(process.args).toEqual(["/.berth/init", "--", "sleep", "9"])
    expect(process.cwd).toBe("/workspace")
    expect(process.env).toEqual([
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "HOME=/root",
      "LANG=C",
      "TOKEN=a=b c",
    ])
  })

  it("sets the limit of open files, and no core files", () => {
    const { config, unheldLimits } = bundle({ limits: { openFiles: 512 } })
    expect(config.process.rlimits).toEqual([
      { type: "RLIMIT_NOFILE", soft: 512, hard: 512 },
      { type: "RLIMIT_CORE", soft: 1, hard: 1 },
    ])
    expect(unheldLimits).toEqual([])
  })

  it("reports the limit of open files as unheld where the server's own is lower", () => {
    const { config, unheldLimits } = bundle({ limits: { openFiles: 4096 } }, { maxOpenFiles: 1024 })
    expect(config.process.rlimits[0]).toEqual({ type: "RLIMIT_NOFILE", soft: 1024, hard: 1024 })
    expect(unheldLimits).toEqual([
      { limit: "openFiles", why: expect.stringContaining("1024 open files") },
    ])
  })

  it("names the sandbox in annotations", () => {
    expect(bundle().config.annotations).toEqual({
      "berth.installation": identity.installation,
      "berth.workspace": "shop",
      "berth.sandbox": identity.sandbox,
      "berth.config-hash": identity.configHash,
    })
  })

  it("binds with nosuid and nodev, the system and its files read-only", () => {
    const { config } = bundle()
    const readOnly = ["rbind", "rro", "rnosuid", "rnodev"]
    expect(config.root).toEqual({ path: "/systems/k", readonly: true })
    expect(mountAt(config, "/usr")).toEqual([
      { destination: "/usr", type: "bind", source: "/usr", options: readOnly },
    ])
    expect(mountAt(config, "/.berth/etc")).toEqual([
      { destination: "/.berth/etc", type: "bind", source: "/s/etc", options: readOnly },
    ])
    expect(mountAt(config, "/home")).toEqual([
      {
        destination: "/home",
        type: "bind",
        source: "/s/home",
        options: ["rbind", "rnosuid", "rnodev"],
      },
    ])
  })

  it("puts a mount of the spec in place of the private directory", () => {
    const mounts = [{ source: "/srv/repo", target: "/workspace", readOnly: true }]
    const { config } = bundle({}, { mounts })
    expect(mountAt(config, "/workspace")).toEqual([
      {
        destination: "/workspace",
        type: "bind",
        source: "/srv/repo",
        options: ["rbind", "rro", "rnosuid", "rnodev"],
      },
    ])
  })

  it("bounds the file systems in memory", () => {
    const { config } = bundle({ limits: { tmpBytes: 8 * 1024 * 1024 } })
    for (const target of ["/tmp", "/run", "/root", "/var", "/dev/shm"]) {
      expect(mountAt(config, target)[0]?.options).toContain(`size=${8 * 1024 * 1024}`)
    }
    expect(mountAt(bundle().config, "/var")[0]?.options).toContain(`size=${64 * 1024 * 1024}`)
  })

  it("sets no-new-privileges and the filter as the spec's hardening says", () => {
    const soft = bundle(
      { hardening: { noNewPrivileges: false, seccomp: "off" } },
      { compiledFilter: "AAAA" },
    )
    expect(soft.config.process.noNewPrivileges).toBe(false)
    expect(soft.config.linux.seccomp).toBeUndefined()
    expect(soft.config.annotations).not.toHaveProperty("run.oci.seccomp_bpf_data")
    const hard = bundle({}, { compiledFilter: "AAAA" })
    expect(hard.config.process.noNewPrivileges).toBe(true)
    expect(hard.config.linux.seccomp?.architectures).toEqual(["SCMP_ARCH_X86_64"])
    expect(hard.config.annotations).toHaveProperty("run.oci.seccomp_bpf_data", "AAAA")
  })
})
