import type { ObservedSandbox } from "@berth/backends/backend"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Decisions } from "../state/decisions.ts"
import type { FailPoint } from "../state/fail-point.ts"
import { CURRENT_PHASES } from "../state/phases.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow, Stop } from "../state/sandbox-row.ts"
import type { Activities } from "../use/activities.ts"
import type { Action, Decision } from "./decide.ts"
import { undrain } from "./undrain.ts"

/** The effects that a decision can have on a sandbox. */
export interface Effects {
  adopt(observed: ObservedSandbox): Promise<void>
  quarantine(observed: ObservedSandbox): Promise<void>
  /** Marks a dead sandbox as stopping, and ends its leases. */
  bury(row: SandboxRow, reason: string): Promise<void>
  pause(sandbox: SandboxId): Promise<void>
  resume(sandbox: SandboxId): Promise<void>
  /** Removes the sandbox from its engine. */
  remove(sandbox: SandboxId): Promise<void>
  /** Tells the sessions of a sandbox that it is draining or gone. */
  tell(sandbox: SandboxId, phase: "draining" | "gone", reason: string): Promise<void>
  /** Removes what is left beside a sandbox that its engine no longer has, and frees its files. */
  forget(row: SandboxRow): Promise<void>
}

export interface ActParts {
  readonly rows: Rows
  readonly activities: Activities
  readonly decisions: Decisions
  readonly effects: Effects
  readonly log: Logger
  readonly at: FailPoint
  readonly isBooting: (sandbox: SandboxId) => boolean
  readonly idleMs: (sandbox: SandboxId) => number
}

/** A sandbox as it was seen, with the decision about it. */
export interface Seen {
  readonly row: SandboxRow | undefined
  readonly observed: ObservedSandbox | undefined
  /** How long nobody had used the sandbox. */
  readonly idleMs: number
  readonly decision: Decision
}

/** Executes the action of a decision, and notes it. */
export const act = async (parts: ActParts, sandbox: SandboxId, seen: Seen): Promise<void> => {
  const { row, observed, decision } = seen
  const { action, reason } = decision
  const isThere = row !== undefined && row.phase !== "gone"
  if (isThere || action.kind !== "keep") await parts.decisions.add(sandbox, action.kind, reason)
  else parts.decisions.end(sandbox)
  if (row === undefined) return await actOnUnknown(parts, sandbox, action, observed)
  // The sandbox is not stopped for being idle if somebody has asked for it since.
  const isWanted = parts.idleMs(sandbox) < seen.idleMs
  if (action.kind === "stop" && action.cause === "idle" && isWanted) return
  await actOnKnown(parts, row, { action, reason }, observed)
  if (action.kind === "forget") parts.decisions.end(sandbox)
}

const actOnUnknown = async (
  { activities, effects }: ActParts,
  sandbox: SandboxId,
  { kind }: Action,
  observed: ObservedSandbox | undefined,
): Promise<void> => {
  if (observed === undefined) return
  if (kind === "query") await activities.query(sandbox)
  if (kind === "resume") await effects.resume(sandbox)
  if (kind === "adopt") await effects.adopt(observed)
  if (kind === "quarantine") await effects.quarantine(observed)
}

const actOnKnown = async (
  parts: ActParts,
  row: SandboxRow,
  { action, reason }: Pick<Decision, "action" | "reason">,
  observed: ObservedSandbox | undefined,
): Promise<void> => {
  const { rows, activities, effects, log, at } = parts
  const { id: sandbox, workspace } = row
  const stop = async (begin: Rows["beginStop"], cause: Stop["cause"]) => {
    if (!(await begin(sandbox, { cause, reason }))) return
    log.info({ op: "sandbox.stop", sandbox, workspace, cause, reason }, "the sandbox is stopping")
    await at("stop.begun")
  }
  switch (action.kind) {
    case "keep":
      return
    case "query":
      await activities.query(sandbox)
      return
    case "quarantine":
      if (observed !== undefined) await effects.quarantine(observed)
      return
    case "drain":
      if (!(await rows.move(sandbox, CURRENT_PHASES, "draining"))) return
      log.warn({ op: "sandbox.drain", sandbox, workspace, reason }, "the sandbox is draining")
      await effects.tell(sandbox, "draining", reason)
      return await at("drain.moved")
    case "undrain":
      await undrain(parts, sandbox)
      return
    case "pause":
      return await effects.pause(sandbox)
    case "resume":
      return await effects.resume(sandbox)
    case "stop":
      return await stop(action.isAsked ? rows.beginStopUnlessUsed : rows.beginStop, action.cause)
    case "bury":
      await effects.bury(row, reason)
      return await at("stop.begun")
    case "remove":
      return await effects.remove(sandbox)
    case "forget":
      return await effects.forget(row)
    case "adopt":
      if (observed !== undefined) await effects.adopt(observed)
      return
  }
}
