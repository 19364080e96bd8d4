import { z } from "zod"
import { BUILTIN_SIDECARS, type BuiltinSidecar } from "./builtin-sidecars.ts"
import { Slug } from "./ids.ts"
import { WorkspaceLimits } from "./limits.ts"
import { NetworkPolicy } from "./network.ts"
import { AbsolutePath, RelativePath } from "./paths.ts"
import { MAX_HOST_PORTS, MIN_HOST_PORT } from "./port-limits.ts"
import {
  areDifferent,
  builtinHasPort,
  hasNoControl,
  hasNoNul,
  hasNoPassword,
  hasNoUser,
  haveDifferentNames,
  haveDifferentPorts,
  readyHasPort,
  runsOneProgram,
  startsWithoutDash,
} from "./rules.ts"

/** The name of an environment variable, as POSIX shells take it. */
export const VariableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be a name of letters, digits and _")

export const Environment = z.record(
  VariableName,
  z
    .string()
    .max(128 * 1024)
    .refine(hasNoNul, "must not contain a NUL byte"),
)
export type Environment = z.infer<typeof Environment>

/** A git remote: https, ssh or file URL, or a path on the host. It never contains credentials. */
export const RepoUrl = z
  .string()
  .min(1)
  .max(2048)
  .refine(
    hasNoUser,
    "must not contain a user or a token: git on the host has them (`git credential approve`)",
  )
  .refine(hasNoPassword, "must not contain a password")
  .refine(hasNoControl, "must not contain a control character")
  .refine(startsWithoutDash, "must not start with -")

export const GitRef = z
  .string()
  .regex(
    /^(?!-)(?!.*\.\.)(?!.*\/\/)[A-Za-z0-9._/+@#-]{1,255}$/,
    "must be a branch, a tag, a commit or a full ref",
  )

export const RepoSpec = z.strictObject({
  url: RepoUrl,
  ref: GitRef.optional(),
  /** The directory of the repo, below /workspace. Default: the URL's last part. */
  directory: RelativePath.optional(),
})
export type RepoSpec = z.infer<typeof RepoSpec>

/** The directory of a repo: as git names a clone, unless it is given. Undefined: the URL does not say. */
export const directoryOfRepo = ({ url, directory }: RepoSpec): string | undefined => {
  const name = /([^/:]+?)(\.git)?[/:]*$/.exec(url)?.[1]
  return directory ?? RelativePath.safeParse(name).data
}

/** An image's name as engines take it: `name`, `host:port/path/name:tag`, `name@sha256:…`. */
export const ImageReference = z
  .string()
  .max(512)
  .regex(
    /^[A-Za-z0-9][\w.-]*(:\d+)?(\/[a-z0-9][\w.-]*)*(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$/,
    "must be an image's name, with its tag or digest",
  )

/** The source of the sandbox's /usr, /etc and so on. */
export const SystemSource = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("host") }),
  z.strictObject({ kind: z.literal("rootfs"), path: AbsolutePath }),
  z.strictObject({ kind: z.literal("image"), reference: ImageReference }),
])
export type SystemSource = z.infer<typeof SystemSource>

/** `provider/model`, as OpenCode names them. */
const ModelName = z
  .string()
  .max(256)
  .regex(/^[^/\s]+\/\S+$/, "must be of the form provider/model")

/** A model's name, as the agent's vendor gives it. */
const OwnModelName = z.string().max(256).regex(/^\S+$/, "must be a model's name, without spaces")

/**
 * Whether an agent acts by itself, asks the person before each act, or may not act; reading is always allowed. With the
 * last two, the agent's own configuration does not count. The sandbox bounds it in any case.
 */
const Permissions = z.enum(["allow", "ask", "deny"])
export type Permissions = z.infer<typeof Permissions>

const MAX_KEYS = 32

const agent = <Kind extends string, Shape extends z.ZodRawShape>(kind: Kind, shape: Shape) =>
  z.strictObject({
    kind: z.literal(kind),
    /** The names of the server's keys that the agent gets, under the same names in its environment. */
    keys: z.array(VariableName).max(MAX_KEYS).default([]),
    ...shape,
  })

export const AgentSpec = z.discriminatedUnion("kind", [
  agent("shell", {}),
  agent("opencode", {
    model: ModelName.optional(),
    permissions: Permissions.default("allow"),
  }),
  /** Claude Code, with its models: the toolbox has it with this agent alone. */
  agent("claude", {
    model: OwnModelName.optional(),
    permissions: Permissions.default("allow"),
  }),
  /** Codex, with its models: the toolbox has it with this agent alone. */
  agent("codex", {
    model: OwnModelName.optional(),
    permissions: Permissions.default("allow"),
  }),
  /** Any program that speaks the Agent Client Protocol on its standard input and output. */
  agent("acp", {
    command: z.array(z.string().min(1)).min(1),
    /** A mode that the agent itself offers; default: the agent chooses. */
    mode: z.string().min(1).max(128).optional(),
    permissions: Permissions.default("allow"),
  }),
])
export type AgentSpec = z.infer<typeof AgentSpec>

/**
 * Why an agent cannot be held to its workspace's permissions; undefined: it can. It is not known what a program asks
 * for that is only known to speak the protocol, unless one of its own modes is named for that.
 */
export const unheldReason = (agent: AgentSpec): string | undefined =>
  agent.kind === "acp" && agent.permissions !== "allow" && agent.mode === undefined
    ? `${agent.command.join(" ")} decides itself what it asks for, so nothing holds it to --permissions ${agent.permissions}`
    : undefined

export const Port = z.int().min(1).max(65_535)

/** The sign that a sidecar is ready: a line of its output, or an answer to `GET path` on its port. */
export const SidecarReadiness = z.union([
  z.strictObject({ line: z.string().min(1).max(1024) }),
  z.strictObject({ http: z.string().regex(/^\/[\x21-\x7e]*$/, "must be a path from /") }),
])
export type SidecarReadiness = z.infer<typeof SidecarReadiness>

const BuiltinSidecarName = z.enum(Object.keys(BUILTIN_SIDECARS) as [BuiltinSidecar])

/** A sidecar runs exactly one of `command` and `builtin`. */
export const SidecarSpec = z
  .strictObject({
    name: Slug,
    command: z.array(z.string()).min(1).optional(),
    /** A sidecar that Berth brings. It serves on its port. */
    builtin: BuiltinSidecarName.optional(),
    /** The sidecar gets the port as PORT. */
    port: Port.optional(),
    /** Default: the sidecar is ready when its port accepts connections; without a port, when it has started. */
    ready: SidecarReadiness.optional(),
    /** Whether the sidecar needs the repo and the work of its hooks; otherwise it starts at once. */
    afterHooks: z.boolean().default(false),
    required: z.boolean().default(false),
  })
  .refine(runsOneProgram, "needs either a command or the name of a builtin")
  .refine(builtinHasPort, "needs a port to serve on")
  .refine(readyHasPort, "needs a port to be asked on")
export type SidecarSpec = z.infer<typeof SidecarSpec>

/** The bound on sidecars: each is a step of the boot, which has room for some more. */
const MAX_SIDECARS = 32

export const Sidecars = z
  .array(SidecarSpec)
  .max(MAX_SIDECARS)
  .refine(haveDifferentNames, "must have different names")
  .refine(haveDifferentPorts, "must have different ports")

/** A port of the host's loopback, which a sandbox has at the same port of its own. */
export const HostPort = z.int().min(MIN_HOST_PORT).max(65_535)
export type HostPort = z.infer<typeof HostPort>

export const HostPorts = z
  .array(HostPort)
  .max(MAX_HOST_PORTS)
  .refine(areDifferent, "must be different ports")

export const HooksSpec = z.strictObject({
  /** Runs once per prebuild or fresh boot. */
  setup: RelativePath.default(".berth/setup.sh"),
  /** Runs at every boot. */
  start: RelativePath.default(".berth/start.sh"),
})
export type HooksSpec = z.infer<typeof HooksSpec>

export const CacheName = z.enum(["npm", "pip", "cargo", "go", "apt"])
export type CacheName = z.infer<typeof CacheName>

/** A workspace: everything that a sandbox is made from. */
export const WorkspaceSpec = z.strictObject({
  slug: Slug,
  repos: z.array(RepoSpec).default([]),
  system: SystemSource.default({ kind: "host" }),
  hooks: HooksSpec.prefault({}),
  environment: Environment.default({}),
  limits: WorkspaceLimits.prefault({}),
  network: NetworkPolicy.prefault({ kind: "open" }),
  agent: AgentSpec.prefault({ kind: "shell" }),
  sidecars: Sidecars.default([]),
  caches: z.array(CacheName).default([]),
  /** Ports of the server's host that the sandbox reaches, whatever its network. */
  hostPorts: HostPorts.default([]),
})
export type WorkspaceSpec = z.infer<typeof WorkspaceSpec>
export type WorkspaceSpecInput = z.input<typeof WorkspaceSpec>
