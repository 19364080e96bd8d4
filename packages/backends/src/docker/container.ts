import { BerthError } from "@berth/protocol/errors"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { CORE_LIMIT_BYTES } from "../core-limit.ts"
import { NETWORK_SETTINGS } from "../network-settings.ts"
import { sandboxOomScore } from "../oom-score.ts"
import type { EngineMount } from "./engine/mount.ts"
import { sandboxLabels } from "./engine/names.ts"
import { PRIVATE_TMPFS } from "./engine/private-tmpfs.ts"
import { MASKED_PATHS } from "./masked-paths.ts"
import { engineFilter } from "./seccomp.ts"

/**
 * Limits on pending signals and timers, and on bytes of message queues. Without a user namespace the kernel counts them
 * together with those of the host's user of the same id, and holds each process to its own limit: so a limit far below
 * the kernel's usual one leaves the rest to the host.
 */
const BELOW_THE_HOST = [
  { Name: "sigpending", Soft: 1_024, Hard: 1_024 },
  { Name: "msgqueue", Soft: 409_600, Hard: 409_600 },
]

export interface ContainerInput {
  readonly spec: SandboxSpec
  readonly createdAt: string
  readonly mounts: readonly EngineMount[]
  /** The name of the network; `none` for the policy `none`. */
  readonly network: string
  /** Whether the engine can filter system calls at all. */
  readonly filters: boolean
  /**
   * Whether /dev is one of the mounts. If so, the engine neither mounts shared memory there, nor opens /dev/null
   * inside.
   */
  readonly ownDevices: boolean
}

/** The engine keeps up to two files of this size of the first process's output. */
const LOG_FILE = { "max-size": "1m", "max-file": "2" }

const FILTER = engineFilter()

const CPU_PERIOD_US = 100_000

const MIB = 1024 * 1024
/** The size of /root and /var/tmp, which hold files that root's programs leave behind. */
const SMALL_TMPFS_BYTES = 64 * MIB

/** The signal that asks a sandbox to end, whatever its image names. */
export const STOP_SIGNAL = "SIGTERM"

/** The body of the engine's request to create a sandbox's container. */
export const containerOf = (input: ContainerInput) => {
  const { spec, createdAt, mounts, network, filters, ownDevices } = input
  const { identity, config } = spec
  const { limits, hardening } = config
  const { openFiles, memoryBytes } = limits
  return {
    Image: imageOf(spec),
    Labels: sandboxLabels(spec, createdAt),
    Hostname: identity.sandbox,
    User: "0:0",
    WorkingDir: "/workspace",
    // Nothing of the image's own is run, neither its entrypoint nor its checks.
    Entrypoint: config.command,
    Cmd: [],
    // Without this, stdin is the host's /dev/null, which a runtime reopens inside only where it has made /dev itself.
    OpenStdin: ownDevices,
    Healthcheck: { Test: ["NONE"] },
    // An engine resumes a paused container for this signal alone.
    StopSignal: STOP_SIGNAL,
    Env: Object.entries(config.environment).map(([name, value]) => `${name}=${value}`),
    HostConfig: {
      Init: true,
      Mounts: mounts,
      Tmpfs: {
        ...tmpfs(limits.tmpBytes),
        ...(ownDevices && sharedMemory(limits.tmpBytes)),
      },
      ReadonlyRootfs: true,
      NetworkMode: network,
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "json-file", Config: LOG_FILE },
      CapDrop: ["ALL"],
      CapAdd: hardening.capabilities,
      SecurityOpt: [
        ...(hardening.noNewPrivileges ? ["no-new-privileges:true"] : []),
        ...(filters ? [`seccomp=${hardening.seccomp === "off" ? "unconfined" : FILTER}`] : []),
      ],
      MaskedPaths: MASKED_PATHS,
      IpcMode: "private",
      CgroupnsMode: "private",
      ShmSize: limits.tmpBytes,
      Sysctls: NETWORK_SETTINGS,
      Memory: memoryBytes,
      // Equal to the memory limit, which means no swap.
      MemorySwap: memoryBytes,
      CpuPeriod: CPU_PERIOD_US,
      CpuQuota: Math.round(limits.cpus * CPU_PERIOD_US),
      PidsLimit: limits.pids,
      OomScoreAdj: sandboxOomScore(),
      Ulimits: [
        { Name: "nofile", Soft: openFiles, Hard: openFiles },
        { Name: "core", Soft: CORE_LIMIT_BYTES, Hard: CORE_LIMIT_BYTES },
        ...BELOW_THE_HOST,
      ],
    },
  }
}

const tmpfs = (tmpBytes: number): Record<string, string> =>
  Object.fromEntries(
    Object.entries(PRIVATE_TMPFS).map(([path, mode]) => {
      const whole = path === "/tmp" || path === "/run"
      const bytes = whole ? tmpBytes : Math.min(tmpBytes, SMALL_TMPFS_BYTES)
      return [path, `rw,exec,nosuid,nodev,mode=${mode},size=${bytes}`]
    }),
  )

const sharedMemory = (bytes: number) => ({
  "/dev/shm": `rw,noexec,nosuid,nodev,mode=1777,size=${bytes}`,
})

export const imageOf = ({ config }: SandboxSpec): string => {
  if (config.system.kind === "image") return config.system.digest
  throw new BerthError("backend.unsupported", "this backend makes sandboxes from images alone", {
    details: { path: "system.kind", given: config.system.kind, supported: ["image"] },
  })
}
