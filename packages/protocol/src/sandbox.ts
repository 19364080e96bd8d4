import { z } from "zod"
import { WorkspaceBoot } from "./boot-plan.ts"
import { InstallationId, SandboxId, Slug } from "./ids.ts"
import { LimitName, Limits } from "./limits.ts"
import { NetworkPolicy } from "./network.ts"
import { AbsolutePath, RelativePath } from "./paths.ts"
import { CacheName, Environment } from "./workspace.ts"

/**
 * creating → booting → ready ⇄ paused
 *                      ready → draining
 *             booting → failed     its boot failed; it is kept for a while to be looked at
 * any of these ⇄ halted            it takes too much of the disk
 * any → stopping → gone            quarantined: what the store does not know
 *
 * Never backwards from stopping.
 */
export const SandboxPhase = z.enum([
  "creating",
  "booting",
  "ready",
  "failed",
  "paused",
  "draining",
  "halted",
  "quarantined",
  "stopping",
  "gone",
])
export type SandboxPhase = z.infer<typeof SandboxPhase>

/**
 * A hash of what can be read quickly of a tree that may change: its packages, its release, its directories of programs.
 */
export const SystemContents = z.string().regex(/^[0-9a-f]{64}$/)
export type SystemContents = z.infer<typeof SystemContents>

/** The system tree, by identity: a digest always means the same, a tag does not. */
export const SystemIdentity = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("host"), contents: SystemContents.optional() }),
  z.strictObject({
    kind: z.literal("rootfs"),
    path: AbsolutePath,
    contents: SystemContents.optional(),
  }),
  z.strictObject({
    kind: z.literal("image"),
    digest: z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256:… with 64 hex digits"),
  }),
])
export type SystemIdentity = z.infer<typeof SystemIdentity>

/** A mount at a path inside, beside the system tree. */
export const Mount = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("directory"),
    source: AbsolutePath,
    target: AbsolutePath,
    readOnly: z.boolean().default(false),
  }),
  z.strictObject({ kind: z.literal("cache"), cache: CacheName, target: AbsolutePath }),
  /** Files of the workspace: a stack of layers, by its name. The layers of the moment are no part of the config. */
  z.strictObject({ kind: z.literal("stack"), stack: Slug, target: AbsolutePath }),
  /** The directory that each sandbox shares with the server: socket, token, journal. */
  z.strictObject({ kind: z.literal("shared"), target: AbsolutePath }),
])
export type Mount = z.infer<typeof Mount>

/** The protections around a sandbox. All are on by default. */
export const Hardening = z.strictObject({
  /** Capabilities kept beyond none, without the CAP_ prefix. */
  capabilities: z
    .array(z.string().regex(/^[A-Z_]+$/))
    .default(["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]),
  noNewPrivileges: z.boolean().default(true),
  seccomp: z.enum(["default", "off"]).default("default"),
})
export type Hardening = z.infer<typeof Hardening>

/** Everything that makes a sandbox what it is; its hash tells a stale sandbox from a current one. */
export const SandboxConfig = z.strictObject({
  system: SystemIdentity,
  command: z.array(z.string().refine((part) => !part.includes("\0"))).min(1),
  environment: Environment.default({}),
  mounts: z.array(Mount).default([]),
  limits: Limits.prefault({}),
  network: NetworkPolicy.prefault({ kind: "none" }),
  hardening: Hardening.prefault({}),
  /** The workspace's part of the boot plan. The boot mode and the sandbox's id are no part of the config. */
  boot: WorkspaceBoot.optional(),
  /** The versions of Berth's own parts: a new one makes running sandboxes stale. */
  agentGeneration: z.string().default("none"),
  supervisorGeneration: z.string().default("none"),
})
export type SandboxConfig = z.infer<typeof SandboxConfig>

export const ConfigHash = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .brand<"ConfigHash">()
export type ConfigHash = z.infer<typeof ConfigHash>

/** The identity of a sandbox. The same values stand in its labels. */
export const SandboxIdentity = z.strictObject({
  installation: InstallationId,
  workspace: Slug,
  sandbox: SandboxId,
  configHash: ConfigHash,
})
export type SandboxIdentity = z.infer<typeof SandboxIdentity>

/** A stack of layers with its writable top, ready to be mounted; paths are relative to `base`. */
export const Overlay = z.strictObject({
  stack: Slug,
  base: AbsolutePath,
  /** The lower layers, highest first. */
  lower: z.array(RelativePath).min(1),
  upper: RelativePath,
  work: RelativePath,
  /** Every option of the mount, including those of the paths. */
  options: z.array(z.string()),
})
export type Overlay = z.infer<typeof Overlay>

export const SandboxSpec = z.strictObject({
  identity: SandboxIdentity,
  config: SandboxConfig,
  /** The overlays, one for each mount of kind `stack`. */
  overlays: z.array(Overlay).optional(),
  /** The source of the mount of kind `shared`: a directory on the host that root inside owns. */
  sharedDirectory: AbsolutePath.optional(),
})
export type SandboxSpec = z.infer<typeof SandboxSpec>

/** The end of a sandbox's first process. */
export const SandboxExit = z.strictObject({
  code: z.int().nullable(),
  reason: z.enum(["exited", "signalled", "out-of-memory", "unknown"]),
  at: z.iso.datetime(),
})
export type SandboxExit = z.infer<typeof SandboxExit>

/** A limit of the config that this host does not enforce, and why. */
export const UnheldLimit = z.strictObject({ limit: LimitName, why: z.string() })
export type UnheldLimit = z.infer<typeof UnheldLimit>

export const SandboxStatus = z.strictObject({
  identity: SandboxIdentity,
  phase: SandboxPhase,
  createdAt: z.iso.datetime(),
  /** Why the processes of a halted sandbox stand still. */
  halted: z.string().optional(),
  exit: SandboxExit.optional(),
  unheldLimits: z.array(UnheldLimit).default([]),
  warnings: z.array(z.string()).default([]),
})
export type SandboxStatus = z.infer<typeof SandboxStatus>
