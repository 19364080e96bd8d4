import { z } from "zod"
import { BootEnding, BootMode, BootStep, BootTrace } from "./boot.ts"
import { SandboxId, Slug } from "./ids.ts"
import { Lease } from "./lease.ts"
import { SandboxPhase, SandboxStatus } from "./sandbox.ts"
import { HostPorts, WorkspaceSpec } from "./workspace.ts"

/**
 * What `POST /v1/sandboxes` takes: it answers with the workspace's current sandbox, made if there is none (201).
 * One that is in use while the workspace has changed is waited for, as long as `?wait=MS` says.
 */
export const CreateSandbox = z.strictObject({
  workspace: WorkspaceSpec,
  /** Removes the workspace of that name first, with its files and sessions, if it is for another repo. */
  replace: z.boolean().default(false),
  /** Boots again where the last boot failed, on the files that are there. Default: a sandbox that is kept for that is refused. */
  retry: z.boolean().default(false),
  /** How the files of a workspace boot that has none yet. */
  mode: BootMode.default("fresh"),
})
export type CreateSandbox = z.infer<typeof CreateSandbox>
export type CreateSandboxInput = z.input<typeof CreateSandbox>

/** How far a boot has come. `GET /v1/sandboxes/{id}/boot` answers with its whole trace. */
export const BootSummary = z.object({
  mode: BootMode,
  outcome: BootTrace.shape.outcome,
  /** Since the boot's start; null: prompts do not pass yet. */
  readyAtMs: BootTrace.shape.readyAtMs,
  /** The steps that run now. */
  running: z.array(BootStep.shape.name),
  /** Why it ended early. */
  ending: z.object({ step: BootEnding.shape.step, reason: BootEnding.shape.reason }).nullable(),
})
export type BootSummary = z.infer<typeof BootSummary>

/** What was decided about a sandbox, and why. */
export const DecisionView = z.object({
  at: z.iso.datetime(),
  action: z.string(),
  reason: z.string(),
})
export type DecisionView = z.infer<typeof DecisionView>

/** What `GET /v1/sandboxes/{id}` answers. With `?wait=MS`, when the boot is over or that time is. */
export const SandboxView = z.object({
  ...SandboxStatus.shape,
  /** null: not known. The sandbox does not answer, or has told nothing yet. */
  boot: BootSummary.nullable(),
  /** Whether any of the leases does not yield: `stop` and `rm` refuse then, and a changed workspace waits. */
  inUse: z.boolean(),
  /** The ports of the host that it reaches at its own loopback, if any. */
  hostPorts: HostPorts.optional(),
  /** The leases by which it is used or kept. */
  leases: z.array(Lease),
})
export type SandboxView = z.infer<typeof SandboxView>

/** The longest that `?wait` may be: below what clients and whatever lies between give a request. */
export const MAX_WAIT_MS = 25_000

/** What `GET /v1/sandboxes` answers, oldest first. */
export const SandboxList = z.object({ sandboxes: z.array(SandboxView) })
export type SandboxList = z.infer<typeof SandboxList>

/** What `GET /v1/sandboxes/{id}/why` answers, also of one that is gone: latest first. */
export const SandboxWhy = z.object({
  sandbox: SandboxId,
  workspace: Slug.nullable(),
  phase: SandboxPhase,
  /** Why its processes stand still, of one that is halted. */
  halted: SandboxStatus.shape.halted,
  inUse: z.boolean(),
  leases: z.array(Lease),
  decisions: z.array(DecisionView),
  /** The one that was asked about, whose place the sandbox above took. */
  earlier: z.object({ sandbox: SandboxId, decisions: z.array(DecisionView) }).optional(),
})
export type SandboxWhy = z.infer<typeof SandboxWhy>

/** The longest that a person may hold a sandbox for; without a time, until it is released. */
export const MAX_HOLD_MS = 30 * 24 * 3600 * 1000

/** What `POST /v1/sandboxes/{id}/holds` takes; it answers with the lease. */
export const HoldSandbox = z.strictObject({
  /** Whose it is, or what for. */
  holder: z.string().min(1).max(200),
  forMs: z.int().min(1000).max(MAX_HOLD_MS).optional(),
})
export type HoldSandbox = z.infer<typeof HoldSandbox>

/** What `POST /v1/sandboxes/{id}/stop` takes. */
export const StopSandbox = z.strictObject({
  /** Though somebody uses it. */
  force: z.boolean().default(false),
})
export type StopSandbox = z.infer<typeof StopSandbox>

/** The body of `POST /v1/sandboxes/{id}/fork`. */
export const ForkSandbox = z.strictObject({ to: Slug })
export type ForkSandbox = z.infer<typeof ForkSandbox>

/** How far a fork is. */
export const ForkProgress = z.object({
  /** Files are copied while the sandbox runs, then while it stands still; then the new sandbox is made. */
  stage: z.enum(["copying", "frozen", "starting"]),
  /** The number of files in this part of the copy. Files that change meanwhile are copied in the next. */
  files: z.int().min(0),
  of: z.int().min(0),
})
export type ForkProgress = z.infer<typeof ForkProgress>

/**
 * A line of the answer of `POST /v1/sandboxes/{id}/fork`, in JSON (`application/x-ndjson`). There is a line at least
 * every ten seconds, and the last one is `forked` or `failed`. A fork that is refused at once has an error's answer.
 * Closing the connection before the last line cancels the fork.
 */
export const ForkLine = z.discriminatedUnion("type", [
  z.object({ type: z.literal("progress"), ...ForkProgress.shape }),
  z.object({
    type: z.literal("forked"),
    /** The new workspace's. */
    sandbox: SandboxView,
    /** How long the sandbox whose files were copied stood still; 0: it did not run. */
    stoodStillMs: z.number().min(0),
  }),
  z.object({
    type: z.literal("failed"),
    code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).default({}),
  }),
])
export type ForkLine = z.infer<typeof ForkLine>

/**
 * The form of an archive: tar with zstd. `GET /v1/workspaces/{slug}/archive` answers with the files of a workspace as they are
 * at one moment. `PUT` to the same path makes a workspace of that name on the files of an archive, and answers with its
 * sandbox (201, a SandboxView), which boots on. The workspace has default settings: an archive holds files, and nothing of
 * networks, keys or agents. Closing the connection cancels either, and leaves nothing.
 */
export const ARCHIVE_TYPE = "application/zstd"

/** What `POST /v1/reconcile` takes. */
export const Reconcile = z.strictObject({
  /** Says what would be done, and does nothing. */
  dryRun: z.boolean().default(false),
})
export type Reconcile = z.infer<typeof Reconcile>

/** What came of one sandbox. */
export const ReconciledSandbox = z.object({
  sandbox: SandboxId,
  workspace: Slug.nullable(),
  /** As the store had it; null: it did not know it. */
  phase: SandboxPhase.nullable(),
  /** As the engine had it; null: it had none. */
  state: z.string().nullable(),
  outcome: z.enum(["kept", "removed", "changed", "failed", "planned"]),
  /** The last thing that was decided. */
  action: z.string(),
  reason: z.string(),
  /** Of one that failed: it is tried again. The engine's own words are in the details. */
  error: z
    .object({
      code: z.string(),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).default({}),
    })
    .optional(),
})
export type ReconciledSandbox = z.infer<typeof ReconciledSandbox>

/** What `POST /v1/reconcile` answers. */
export const ReconcileReport = z.object({
  dryRun: z.boolean(),
  durationMs: z.number(),
  sandboxes: z.array(ReconciledSandbox),
})
export type ReconcileReport = z.infer<typeof ReconcileReport>

/**
 * The answer of `GET /v1/names/{name}`: the one sandbox that is called so, by its id, the beginning of it or its workspace.
 * With `?quarantined=true`, of several the quarantined one; with `?start=true`, one that is stopped is started again.
 */
export const NamedSandbox = z.object({
  sandbox: SandboxId,
  /** The one that was named by its id, whose place this one took. */
  earlier: SandboxId.optional(),
})
export type NamedSandbox = z.infer<typeof NamedSandbox>

/**
 * Names the sandbox that answered. The id of a workspace's earlier sandbox leads to the current one, in every call: it is
 * that one's then.
 */
export const SANDBOX_HEADER = "x-berth-sandbox"

/** What a sandbox serves through `/v1/sandboxes/{id}/…`, by the first part of the path that follows. */
export const SANDBOX_FEATURES = ["commands", "files", "terminals", "ports", "git"] as const

/**
 * WebSockets of browsers cannot send an Authorization header, so the token may come as a subprotocol
 * `berth.bearer.TOKEN`, beside `berth`, which the server then answers with. Whoever comes this way does not see
 * a refused handshake either: a refusal is a connection with one text frame, a SocketRefusal, and its end. To those
 * who offer `berth.refused`, too, the server answers with that, so that they know before the frame. A connection that
 * the server ends because the sandbox broke the protocol has a SocketRefusal as its last frame as well.
 */
export const SUBPROTOCOL = "berth"
export const REFUSED_SUBPROTOCOL = "berth.refused"
export const BEARER_SUBPROTOCOL = "berth.bearer."

export const SocketRefusal = z.object({
  type: z.literal("refused"),
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).default({}),
  }),
})
export type SocketRefusal = z.infer<typeof SocketRefusal>
