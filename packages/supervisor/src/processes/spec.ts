import type { Readable, Writable } from "node:stream"
import type { Clock } from "./clock.ts"
import type { RestartPolicy } from "./decide-restart.ts"
import type { Launch } from "./launch.ts"
import type { Pipes } from "./output/pipes.ts"
import type { Readiness } from "./readiness/readiness.ts"
import type { TreeEnd } from "./tree/end.ts"

/**
 * Default time limit from start to ready. Agents take seconds on a busy machine; a boot step that waits has its own
 * limit.
 */
export const READY_WITHIN_MS = 60_000
/**
 * Default time from SIGTERM to SIGKILL, below a boot step's CANCEL_GRACE_MS and below an engine's grace for a sandbox.
 */
export const STOP_GRACE_MS = 3_000

/** A process to keep running. */
export interface ProcessSpec extends Launch {
  readonly name: string
  readonly readiness: Readiness
  /** Default: READY_WITHIN_MS. */
  readonly readyWithinMs?: number
  /** Default: STOP_GRACE_MS. */
  readonly stopGraceMs?: number
  /** Default: RESTART_POLICY. */
  readonly restart?: RestartPolicy
  readonly log?: { readonly path: string; readonly maxBytes?: number }
  /**
   * Called at each start, for a process that is spoken to over its standard input and output. Only standard error is
   * output then. A slow reader holds up the process, not the supervisor.
   */
  readonly connect?: (conversation: Conversation) => void
}

export interface Conversation {
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly exited: Promise<unknown>
}

/** The dependencies of a process. */
export interface ProcessParts {
  readonly clock: Clock
  readonly pipes?: Pipes
  /** Returns a number from 0 to 1, for the jitter. */
  readonly chance?: () => number
  readonly onEvent?: (event: ProcessEvent) => void
}

/**
 * idle → starting → ready → (ended) → backing-off → starting …
 *                                   → given-up
 * any → stopping → stopped
 */
export type ProcessPhase =
  | "idle"
  | "starting"
  | "ready"
  | "backing-off"
  | "given-up"
  | "stopping"
  | "stopped"

export type ProcessNews =
  | { readonly type: "started"; readonly pid: number; readonly start: number }
  | { readonly type: "ready"; readonly afterMs: number }
  | { readonly type: "ended"; readonly how: string; readonly readyForMs: number }
  | { readonly type: "restarting"; readonly afterMs: number; readonly reason: string }
  | { readonly type: "given-up"; readonly reason: string; readonly lastOutput: string }
  | { readonly type: "stopped"; readonly report: StopReport }
  /** Processes that outlived SIGKILL. */
  | { readonly type: "left-behind"; readonly pids: readonly number[] }
  | { readonly type: "log-failed"; readonly problem: string }

export type ProcessEvent = ProcessNews & { readonly name: string; readonly atMs: number }

export interface ProcessStatus {
  readonly name: string
  readonly phase: ProcessPhase
  readonly pid: number | undefined
  /** The number of starts. */
  readonly starts: number
  /** Failures in a row. */
  readonly failures: number
  /** Why the process is in this phase, if there is more to say. */
  readonly reason: string
}

/** The result of a stop; all zero if nothing ran. */
export interface StopReport extends TreeEnd {
  readonly name: string
  readonly tookMs: number
}

export interface StopOptions {
  /** Default: the process's own grace. */
  readonly graceMs?: number
  /** Cuts the grace short, also of a stop that is under way. */
  readonly hurry?: AbortSignal
}
