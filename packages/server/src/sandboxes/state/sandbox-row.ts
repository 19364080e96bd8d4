import type { BootMode } from "@berth/protocol/boot"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { ConfigHash } from "@berth/protocol/sandbox"
import type { StopCause, StoredPhase } from "../../store/database.ts"

/** The store's knowledge of one sandbox. */
export interface SandboxRow {
  readonly id: SandboxId
  readonly workspace: Slug
  readonly configHash: ConfigHash
  readonly phase: StoredPhase
  readonly phaseAtMs: number
  readonly mode: BootMode
  readonly createdAtMs: number
  /** Present once the sandbox is stopping. */
  readonly stop: Stop | undefined
  /** The things that the sandbox was made without, in words. */
  readonly warnings: readonly string[]
  /** The sandbox belongs to no workspace, though one may have that name: its own was removed, or it is quarantined. */
  readonly isDetached: boolean
}

export interface Stop {
  readonly cause: StopCause
  readonly reason: string
}

export type NewSandbox = Pick<SandboxRow, "id" | "workspace" | "configHash" | "mode"> & {
  readonly phase: Extract<StoredPhase, "creating" | "ready" | "draining" | "failed" | "quarantined">
}
