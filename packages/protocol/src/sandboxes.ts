import { z } from "zod"
import { BootEnding, BootMode, BootStep, BootTrace } from "./boot.ts"
import { SandboxId, Slug } from "./ids.ts"
import { Lease } from "./lease.ts"
import { SandboxPhase, SandboxStatus } from "./sandbox.ts"
import { HostPorts, WorkspaceSpec } from "./workspace.ts"

/**
 * The body of `POST /v1/sandboxes`: it answers with the workspace's current sandbox, made if there is none (201). If
 * the workspace has changed while its sandbox is in use, the request waits for as long as `?wait=MS` says. With it, the
 * progress of a toolbox that is being built is an error (`toolbox.preparing`), for a client that asks again; without it,
 * the request waits for the toolbox.
 */
export const CreateSandbox = z.strictObject({
  workspace: WorkspaceSpec,
  /** Removes the workspace of that name first, with its files and sessions, if it is for another repo. */
  replace: z.boolean().default(false),
  /**
   * Boots again where the last boot failed, on the files that are there. Default: refused while the failed sandbox is
   * kept.
   */
  retry: z.boolean().default(false),
  /** The boot mode of a workspace that has no files yet. */
  mode: BootMode.default("fresh"),
})
export type CreateSandbox = z.infer<typeof CreateSandbox>
export type CreateSandboxInput = z.input<typeof CreateSandbox>

/** The progress of a boot. `GET /v1/sandboxes/{id}/boot` answers with its whole trace. */
export const BootSummary = z.object({
  mode: BootMode,
  outcome: BootTrace.shape.outcome,
  /** The time since the boot's start; null: prompts do not pass yet. */
  readyAtMs: BootTrace.shape.readyAtMs,
  /** The steps that run now. */
  running: z.array(BootStep.shape.name),
  /** Why the boot ended early. */
  ending: z.object({ step: BootEnding.shape.step, reason: BootEnding.shape.reason }).nullable(),
})
export type BootSummary = z.infer<typeof BootSummary>

/** A decision about a sandbox, and its reason. */
export const DecisionView = z.object({
  at: z.iso.datetime(),
  action: z.string(),
  reason: z.string(),
})
export type DecisionView = z.infer<typeof DecisionView>

/** The answer of `GET /v1/sandboxes/{id}`. With `?wait=MS`, it comes when the boot is over or that time is. */
export const SandboxView = z.object({
  ...SandboxStatus.shape,
  /** null: not known. The sandbox does not answer, or has told nothing yet. */
  boot: BootSummary.nullable(),
  /** Whether any of the leases does not yield: `stop` and `rm` refuse then, and a changed workspace waits. */
  inUse: z.boolean(),
  /** The ports of the host that the sandbox reaches at its own loopback, if any. */
  hostPorts: HostPorts.optional(),
  /** The leases by which the sandbox is used or kept. */
  leases: z.array(Lease),
})
export type SandboxView = z.infer<typeof SandboxView>

/** The longest `?wait`: shorter than the timeouts of clients and of programs in between. */
export const MAX_WAIT_MS = 25_000

/** The answer of `GET /v1/sandboxes`, oldest first. */
export const SandboxList = z.object({ sandboxes: z.array(SandboxView) })
export type SandboxList = z.infer<typeof SandboxList>

/** The answer of `GET /v1/sandboxes/{id}/why`, also for a sandbox that is gone: latest decision first. */
export const SandboxWhy = z.object({
  sandbox: SandboxId,
  workspace: Slug.nullable(),
  phase: SandboxPhase,
  /** Why the processes of a halted sandbox stand still. */
  halted: SandboxStatus.shape.halted,
  inUse: z.boolean(),
  leases: z.array(Lease),
  decisions: z.array(DecisionView),
  /** The sandbox that was asked about, whose place the sandbox above took. */
  earlier: z.object({ sandbox: SandboxId, decisions: z.array(DecisionView) }).optional(),
})
export type SandboxWhy = z.infer<typeof SandboxWhy>

/** The longest time that a person may hold a sandbox for; without a time, the hold lasts until it is released. */
export const MAX_HOLD_MS = 30 * 24 * 3600 * 1000

/** The body of `POST /v1/sandboxes/{id}/holds`, which answers with the lease. */
export const HoldSandbox = z.strictObject({
  /** The person who holds the sandbox, or the purpose. */
  holder: z.string().min(1).max(200),
  forMs: z.int().min(1000).max(MAX_HOLD_MS).optional(),
})
export type HoldSandbox = z.infer<typeof HoldSandbox>

/** The body of `POST /v1/sandboxes/{id}/stop`. */
export const StopSandbox = z.strictObject({
  /** Stops the sandbox even if somebody uses it. */
  force: z.boolean().default(false),
})
export type StopSandbox = z.infer<typeof StopSandbox>

/** The body of `POST /v1/sandboxes/{id}/fork`. */
export const ForkSandbox = z.strictObject({ to: Slug })
export type ForkSandbox = z.infer<typeof ForkSandbox>

/** The progress of a fork. */
export const ForkProgress = z.object({
  /** The stage: files are copied while the sandbox runs, then while it stands still; then the new sandbox is made. */
  stage: z.enum(["copying", "frozen", "starting"]),
  /** The number of files in this part of the copy. Files that change meanwhile are copied in the next. */
  files: z.int().min(0),
  of: z.int().min(0),
})
export type ForkProgress = z.infer<typeof ForkProgress>

/**
 * A line of the answer of `POST /v1/sandboxes/{id}/fork`, in JSON (`application/x-ndjson`). There is a line at least
 * every ten seconds, and the last one is `forked` or `failed`. A fork that is refused at once gets an error response.
 * Closing the connection before the last line cancels the fork.
 */
export const ForkLine = z.discriminatedUnion("type", [
  z.object({ type: z.literal("progress"), ...ForkProgress.shape }),
  z.object({
    type: z.literal("forked"),
    /** The sandbox of the new workspace. */
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
 * The format of an archive: tar with zstd. `GET /v1/workspaces/{slug}/archive` answers with the files of a workspace as
 * they are at one moment. `PUT` to the same path makes a workspace of that name on the files of an archive, and answers
 * with its sandbox (201, a SandboxView), which boots on. The workspace has default settings: an archive holds files,
 * and nothing of networks, keys or agents. Closing the connection cancels either, and leaves nothing.
 */
export const ARCHIVE_TYPE = "application/zstd"

/** The body of `POST /v1/reconcile`. */
export const Reconcile = z.strictObject({
  /** Reports what would be done, and does nothing. */
  dryRun: z.boolean().default(false),
})
export type Reconcile = z.infer<typeof Reconcile>

/** The outcome for one sandbox. */
export const ReconciledSandbox = z.object({
  sandbox: SandboxId,
  workspace: Slug.nullable(),
  /** The phase in the store; null: the store did not know the sandbox. */
  phase: SandboxPhase.nullable(),
  /** The state in the engine; null: the engine did not have the sandbox. */
  state: z.string().nullable(),
  outcome: z.enum(["kept", "removed", "changed", "failed", "planned"]),
  /** The last action that was decided. */
  action: z.string(),
  reason: z.string(),
  /** The failure, which is tried again. The engine's own words are in the details. */
  error: z
    .object({
      code: z.string(),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).default({}),
    })
    .optional(),
})
export type ReconciledSandbox = z.infer<typeof ReconciledSandbox>

/** The answer of `POST /v1/reconcile`. */
export const ReconcileReport = z.object({
  dryRun: z.boolean(),
  durationMs: z.number(),
  sandboxes: z.array(ReconciledSandbox),
})
export type ReconcileReport = z.infer<typeof ReconcileReport>

/**
 * The answer of `GET /v1/names/{name}`: the one sandbox of that name: an id, the beginning of an id, or a workspace.
 * With `?quarantined=true`, the quarantined one of several; with `?start=true`, a stopped one is started again.
 */
export const NamedSandbox = z.object({
  sandbox: SandboxId,
  /** The sandbox that was named by its id, whose place this one took. */
  earlier: SandboxId.optional(),
})
export type NamedSandbox = z.infer<typeof NamedSandbox>

/**
 * The header that names the sandbox that answered. The id of a workspace's earlier sandbox leads to the current one, in
 * every call: then the header has the current one's id.
 */
export const SANDBOX_HEADER = "x-berth-sandbox"

/** The features that a sandbox serves through `/v1/sandboxes/{id}/…`, by the first part of the path that follows. */
export const SANDBOX_FEATURES = ["commands", "files", "terminals", "ports", "git"] as const

/**
 * WebSockets of browsers cannot send an Authorization header, so the token may come as a subprotocol
 * `berth.bearer.TOKEN`, beside `berth`, which the server then answers with. Such clients do not see a refused handshake
 * either: a refusal is a connection with one text frame, a SocketRefusal, and its end. To clients that offer
 * `berth.refused`, too, the server answers with that, so that they know before the frame. A connection that the server
 * ends because the sandbox broke the protocol has a SocketRefusal as its last frame as well.
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
