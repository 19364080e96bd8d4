import { BerthError } from "@berth/protocol/errors"
import type { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import { TTY_GROUP_ID } from "../accounts.ts"
import { CORE_LIMIT_BYTES } from "../core-limit.ts"
import { NETWORK_SETTINGS } from "../network-settings.ts"
import { type Architecture, seccompProfile } from "../seccomp/profile.ts"
import { MAX_TERMINALS } from "../terminals.ts"
import { ID_COUNT } from "./ids/range.ts"
import type { OciConfig, OciMount } from "./oci.ts"
import { compiledAnnotation } from "./seccomp/compiled.ts"
import { MASKED_PATHS, READ_ONLY_PATHS } from "./system/masked-paths.ts"
import { INIT_PATH, SANDBOX_FILES } from "./system/places.ts"
import type { Bind, PreparedSystem } from "./system/prepared.ts"
import type { PrivateDirectories } from "./system/private-directories.ts"

export interface BundleInput {
  readonly spec: SandboxSpec
  readonly system: PreparedSystem
  /** The spec's mounts, after their checks. */
  readonly mounts: readonly Bind[]
  readonly directories: PrivateDirectories
  /** The place of this sandbox's own files of /etc. */
  readonly files: { readonly etc: string }
  readonly idBase: number
  /** An existing user namespace with the same ids; without one, the runtime makes it. */
  readonly userNamespace?: string | undefined
  readonly cgroupPath: string
  readonly hostname: string
  readonly architecture: Architecture
  /** The limit of the server's own process: a sandbox cannot have more. */
  readonly maxOpenFiles: number
  /** The system call filter as crun has compiled it before. */
  readonly compiledFilter?: string | undefined
}

export interface Bundle {
  readonly config: OciConfig
  readonly unheldLimits: readonly UnheldLimit[]
}

const NAMESPACES = ["pid", "mount", "ipc", "uts", "network", "cgroup"]

const PLAIN_ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/root",
  LANG: "C.UTF-8",
}

const MIB = 1024 * 1024
/**
 * The sizes of /dev, which holds a few links and nodes, and of /root and /var, which hold files that root's programs
 * leave behind.
 */
const DEV_BYTES = MIB
const SMALL_TMPFS_BYTES = 64 * MIB

/** Makes the bundle of a sandbox: the runtime's input. */
export const makeBundle = (input: BundleInput): Bundle => {
  const { spec, system, idBase, hostname, cgroupPath, architecture } = input
  const { config, identity } = spec
  const { hardening } = config
  const openFiles = Math.min(config.limits.openFiles, input.maxOpenFiles)
  const capabilities = hardening.capabilities.map(capabilityName)
  const mappings = [{ containerID: 0, hostID: idBase, size: ID_COUNT }]
  return {
    config: {
      ociVersion: "1.0.2",
      process: {
        terminal: false,
        user: { uid: 0, gid: 0, umask: 0o022 },
        args: [INIT_PATH, "--", ...config.command],
        env: environment(config.environment),
        cwd: "/workspace",
        capabilities: {
          bounding: capabilities,
          effective: capabilities,
          permitted: capabilities,
          inheritable: [],
          ambient: [],
        },
        rlimits: [
          { type: "RLIMIT_NOFILE", soft: openFiles, hard: openFiles },
          { type: "RLIMIT_CORE", soft: CORE_LIMIT_BYTES, hard: CORE_LIMIT_BYTES },
        ],
        noNewPrivileges: hardening.noNewPrivileges,
      },
      root: { path: system.root, readonly: true },
      hostname,
      mounts: mounts(input),
      annotations: {
        "berth.installation": identity.installation,
        "berth.workspace": identity.workspace,
        "berth.sandbox": identity.sandbox,
        "berth.config-hash": identity.configHash,
        ...(hardening.seccomp === "default" && compiledAnnotation(input.compiledFilter)),
      },
      linux: {
        cgroupsPath: cgroupPath,
        namespaces: [
          ...NAMESPACES.map((type) => ({ type })),
          { type: "user", ...(input.userNamespace && { path: input.userNamespace }) },
        ],
        uidMappings: mappings,
        gidMappings: mappings,
        sysctl: NETWORK_SETTINGS,
        rootfsPropagation: "rprivate",
        maskedPaths: MASKED_PATHS,
        readonlyPaths: READ_ONLY_PATHS,
        ...(hardening.seccomp === "default" && { seccomp: seccompProfile(architecture) }),
      },
    },
    unheldLimits: unheld(config.limits.openFiles, input.maxOpenFiles),
  }
}

const unheld = (wanted: number, most: number): UnheldLimit[] =>
  wanted <= most
    ? []
    : [
        {
          limit: "openFiles",
          why: `the server's own limit is ${most} open files, and nothing it starts can have more`,
        },
      ]

const environment = (own: Readonly<Record<string, string>>): string[] =>
  Object.entries({ ...PLAIN_ENVIRONMENT, ...own }).map(([name, value]) => `${name}=${value}`)

/** The mounts, in the order in which the runtime mounts them: outer ones first. */
const mounts = ({ spec, system, mounts, directories, files }: BundleInput): OciMount[] => {
  const { tmpBytes } = spec.config.limits
  const smallBytes = Math.min(tmpBytes, SMALL_TMPFS_BYTES)
  const taken = new Set(mounts.map(({ target }) => target))
  const own: Bind[] = [
    { source: directories.home, target: "/home", readOnly: false },
    { source: directories.workspace, target: "/workspace", readOnly: false },
  ]
  return [
    mount("proc", "/proc", ["nosuid", "nodev", "noexec"]),
    ...system.binds.map(bind),
    mount("tmpfs", "/dev", ["nosuid", "noexec", "mode=0755", `size=${DEV_BYTES}`]),
    mount("devpts", "/dev/pts", [
      "nosuid",
      "noexec",
      "newinstance",
      "ptmxmode=0666",
      "mode=0620",
      `gid=${TTY_GROUP_ID}`,
      `max=${MAX_TERMINALS}`,
    ]),
    tmpfs("/dev/shm", tmpBytes, "1777", "noexec"),
    mount("mqueue", "/dev/mqueue", ["nosuid", "nodev", "noexec"]),
    mount("sysfs", "/sys", ["nosuid", "nodev", "noexec", "ro"]),
    tmpfs("/tmp", tmpBytes, "1777"),
    tmpfs("/run", tmpBytes, "0755"),
    tmpfs("/root", smallBytes, "0700"),
    tmpfs("/var", smallBytes, "0755", "tmpcopyup"),
    bind({ source: files.etc, target: SANDBOX_FILES, readOnly: true }),
    ...own.filter(({ target }) => !taken.has(target)).map(bind),
    ...mounts.map(bind),
  ]
}

const mount = (type: string, destination: string, options: readonly string[]): OciMount => ({
  destination,
  type,
  source: type,
  options,
})

const tmpfs = (destination: string, bytes: number, mode: string, ...more: readonly string[]) =>
  mount("tmpfs", destination, ["nosuid", "nodev", `mode=${mode}`, `size=${bytes}`, ...more])

/**
 * A bind mount, with the recursive forms of the flags: crun drops nosuid and nodev from a bind that is not read-only,
 * and clearing a flag that the source's own mount has, as the plain forms do, is refused in a user namespace.
 */
const bind = ({ source, target, readOnly }: Bind): OciMount => ({
  destination: target,
  type: "bind",
  source,
  options: ["rbind", ...(readOnly ? ["rro"] : []), "rnosuid", "rnodev"],
})

/** The kernel's list, capabilities(7). The runtimes differ in what they do with a name that is not on it. */
const CAPABILITIES = new Set(
  `AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE
  DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD
  NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN
  SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME
  SYS_TTY_CONFIG WAKE_ALARM`.split(/\s+/),
)

const capabilityName = (name: string): string => {
  if (CAPABILITIES.has(name)) return `CAP_${name}`
  throw new BerthError("input.invalid", `there is no capability ${name}`, {
    details: { path: "hardening.capabilities", name },
  })
}
