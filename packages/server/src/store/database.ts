import type { BootMode } from "@berth/protocol/boot"
import type {
  InstallationId,
  LeaseId,
  PromptId,
  SandboxId,
  SessionId,
  Slug,
} from "@berth/protocol/ids"
import type { LeaseKind, LeaseSource } from "@berth/protocol/lease"
import type { ConfigHash } from "@berth/protocol/sandbox"
import type { OnInterrupt, PromptState, SessionState } from "@berth/protocol/session"
import type { Generated } from "kysely"

/**
 * The tables as the newest migration leaves them, for typed queries. A new table needs its migration (see
 * migrations/list.ts), its interface below, and its line here. Times are wall-clock milliseconds.
 */
export interface Database {
  installation: InstallationTable
  workspaces: WorkspacesTable
  sandboxes: SandboxesTable
  leases: LeasesTable
  decisions: DecisionsTable
  sessions: SessionsTable
  prompts: PromptsTable
  attachments: AttachmentsTable
  events: EventsTable
  cuts: CutsTable
}

/** The table of one row, made with the database. */
export interface InstallationTable {
  id: InstallationId
  created_at_ms: number
  /** See epoch.ts. */
  epoch: Generated<number>
}

export interface WorkspacesTable {
  slug: Slug
  /** JSON text. */
  spec: string
  created_at_ms: number
  updated_at_ms: number
  /** 1: the files have been through a whole boot, so that the next one leaves them as they are. */
  booted: Generated<number>
  /** The failed boots in a row of the config that `failed_hash` names. */
  failed_boots: Generated<number>
  failed_hash: ConfigHash | null
  failed_why: string | null
  /** 1: the files are being copied from another workspace. Until they are whole, nobody sees the workspace. */
  forking: Generated<number>
}

/** The phases in the store. `paused` is not among them: the engine knows that. */
export type StoredPhase =
  | "creating"
  | "booting"
  | "ready"
  | "failed"
  | "draining"
  | "quarantined"
  | "stopping"
  | "gone"

export interface SandboxesTable {
  id: SandboxId
  workspace: Slug
  config_hash: ConfigHash
  phase: StoredPhase
  phase_at_ms: number
  mode: BootMode
  created_at_ms: number
  /** The cause of the stop, and its reason in words, once the sandbox is stopping. */
  stop_cause: StopCause | null
  stop_reason: string | null
  /** The things that the sandbox was made without: a list of texts, as JSON. */
  warnings: Generated<string>
  /** The number of the last stored event: the sandbox may have forgotten it. */
  last_seen: Generated<number>
  /**
   * 1: the sandbox belongs to no workspace, though one may have that name: its own was removed, or it is quarantined.
   */
  detached: Generated<number>
  /** The stored bytes of the sandbox's events, less what it has earned since: see events/output-budget.ts. */
  said_bytes: Generated<number>
  said_at_ms: Generated<number>
}

/**
 * stale      its workspace has changed, and nobody used it
 * drained    its workspace has changed, and its last use has ended: it is replaced at once
 * ended      its processes did, or its engine lost it
 */
export type StopCause = "stale" | "drained" | "idle" | "pressure" | "ended" | "person"

/** A row is a live lease: whatever ends a lease deletes its row, so that no query looks at a clock. */
export interface LeasesTable {
  id: LeaseId
  sandbox: SandboxId
  kind: LeaseKind
  source: LeaseSource
  subject: string | null
  /** 1: the lease gives way to whatever somebody asks for. */
  yields: number
  /** The holder, for people. */
  holder: string
  acquired_at_ms: number
  /** The time that the lease lives unless it is renewed; null: until it is released. */
  ttl_ms: number | null
}

export interface DecisionsTable {
  number: Generated<number>
  sandbox: SandboxId
  at_ms: number
  action: string
  reason: string
}

export interface SessionsTable {
  id: SessionId
  workspace: Slug
  /** JSON text of the agent as the workspace had it when the session began. */
  agent: string
  state: SessionState
  on_interrupt: OnInterrupt
  created_at_ms: number
  /** The number of the last event. */
  last_event: Generated<number>
  /** The bytes of the stored events. */
  event_bytes: Generated<number>
  /** How far the files with the output that was left out are written: see events/rest-files.ts. */
  rest_file: Generated<number>
  rest_bytes: Generated<number>
}

export interface PromptsTable {
  id: PromptId
  session: SessionId
  number: number
  text: string
  /** The names of the attachments, as JSON. */
  attachments: string
  key: string | null
  /** The digest of the prompt that was sent under the key. */
  digest: string
  state: PromptState
  reason: string | null
  /**
   * The sandbox that the prompt is assigned to, noted before the sandbox is told: from then on it is assigned to no
   * other.
   */
  sandbox: SandboxId | null
  deadline_ms: number | null
  created_at_ms: number
  started_at_ms: number | null
  ended_at_ms: number | null
  continues: PromptId | null
  /** 1: somebody asked to stop the prompt. */
  stop_requested: Generated<number>
  /**
   * 1: the sandbox did not take the stop in time, and has not confirmed yet that the prompt has ended in it. The prompt
   * itself may have ended.
   */
  stop_overdue: Generated<number>
}

/** The files that came with a prompt, until it has ended. */
export interface AttachmentsTable {
  prompt: PromptId
  name: string
  content: Buffer
}

/** Output that was left out of the log. */
export interface CutsTable {
  session: SessionId
  /** Empty: the output belongs to no prompt. */
  prompt: PromptId | ""
  bytes: number
  events: number
  /** The bytes of it that an event has reported. */
  told_bytes: number
}

export interface EventsTable {
  session: SessionId
  sequence: number
  at_ms: number
  type: string
  /** The whole event, as JSON. */
  json: string
}
