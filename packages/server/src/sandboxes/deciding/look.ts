import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { keepsAmong, userOf, usesAmong } from "@berth/protocol/lease"
import type { ConfigHash } from "@berth/protocol/sandbox"
import type { Backend, ObservedSandbox } from "../../backends/backend.ts"
import type { Logger } from "../../logging/logger.ts"
import type { Clock } from "../state/clock.ts"
import type { Decisions } from "../state/decisions.ts"
import type { FailPoint } from "../state/fail-point.ts"
import type { Rows, SandboxRow, Stop } from "../state/rows.ts"
import { CURRENT_PHASES, isCurrentPhase } from "../state/rows.ts"
import type { Leases } from "../use/leases.ts"
import type { Lives } from "../use/lives.ts"
import { type Action, type Decision, decide, type Policy, type World } from "./decide.ts"

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

export interface LookParts {
  readonly backend: Pick<Backend, "inspect">
  readonly rows: Rows
  readonly leases: Leases
  readonly lives: Lives
  readonly decisions: Decisions
  readonly effects: Effects
  readonly clock: Clock
  readonly log: Logger
  readonly policy: Policy
  readonly canPause: boolean
  readonly at: FailPoint
  readonly isBooting: (sandbox: SandboxId) => boolean
  readonly isBeingMade: (sandbox: SandboxId) => boolean
  readonly idleMs: (sandbox: SandboxId) => number
  /** Why the sandbox is to make room, if it is. */
  readonly pressure: (sandbox: SandboxId) => string | undefined
  /** Why the sandbox's processes are halted, if they are. */
  readonly halted: (sandbox: SandboxId) => string | undefined
  readonly wantedHash: (row: SandboxRow) => Promise<ConfigHash | undefined>
  /** Why the boot failed, for a sandbox in the phase `failed`. */
  readonly bootFailure: (row: SandboxRow) => Promise<string | undefined>
  /** Whether somebody asked for the sandbox's successor, or described its workspace differently since it was made. */
  readonly isSuccessorAsked: (row: SandboxRow) => Promise<boolean>
}

export interface Seen {
  readonly row: SandboxRow | undefined
  readonly observed: ObservedSandbox | undefined
  /** How long nobody had used the sandbox. */
  readonly idleMs: number
  readonly decision: Decision
}

/** The outcome of a look at a sandbox. */
export interface Looked {
  /** Absent if the sandbox's state could not be read. */
  readonly seen?: Seen
  readonly decision: Decision
  /** Present if executing the decision failed. */
  readonly failure?: unknown
}

/** The look right before another. */
export interface Before {
  readonly looked: Looked
  /** A change was reported since. */
  readonly isStale: boolean
}

/** Reads everything about a sandbox, and decides. Changes nothing. */
export const see = async (
  parts: LookParts,
  sandbox: SandboxId,
  /** The engine's view of the sandbox, where it is known already. */
  left?: Pick<Seen, "observed">,
): Promise<Seen> => {
  const { rows, leases, lives, clock, policy, canPause } = parts
  // Asked before and after the reads: they may be from before the sandbox was made, and it may be complete when they
  // end.
  const wasBeingMade = parts.isBeingMade(sandbox)
  const [row, observed, held] = await Promise.all([
    rows.get(sandbox),
    left === undefined ? parts.backend.inspect(sandbox) : left.observed,
    leases.of(sandbox),
  ])
  const wantedHash = row && (await parts.wantedHash(row))
  // Only a lease that keeps a stale sandbox can give way to its successor, so the question is not asked otherwise.
  const mayGiveWay = wantedHash !== row?.configHash && held.length > 0
  const world: World = {
    known: row && {
      phase: row.phase,
      configHash: row.configHash,
      // The phase gets no negative age when the wall clock is set back.
      phaseMs: Math.max(0, clock.now() - row.phaseAtMs),
      wantedHash,
      isSuccessorAsked: mayGiveWay && (await parts.isSuccessorAsked(row)),
      bootFailure: row.phase === "failed" ? await parts.bootFailure(row) : undefined,
      isPresumedDead: row.stop?.cause === "ended",
      isReplaced: row.phase === "draining" && (await hasOther(rows, row)),
      isBeingMade: wasBeingMade || parts.isBeingMade(sandbox),
    },
    state: observed?.state,
    life: lives.of(sandbox),
    uses: usesAmong(held).map(userOf),
    keeps: keepsAmong(held).map(userOf),
    idleMs: parts.idleMs(sandbox),
    pressure: parts.pressure(sandbox),
    halted: parts.halted(sandbox),
    canPause,
    policy,
  }
  return { row, observed, idleMs: world.idleMs, decision: decide(world) }
}

const hasOther = async (rows: Rows, { id, workspace }: SandboxRow): Promise<boolean> =>
  (await rows.ofWorkspace(workspace)).some(
    (other) => other.id !== id && isCurrentPhase(other.phase),
  )

/** Looks at a sandbox and executes the next action for it. */
export const look = async (
  parts: LookParts,
  sandbox: SandboxId,
  before?: Before,
): Promise<Looked> => {
  const seen = await see(parts, sandbox, before && leftBy(before))
  const { decision } = seen
  try {
    await act(parts, sandbox, seen)
    return { seen, decision }
  } catch (failure) {
    const said = failure instanceof BerthError ? failure.message : String(failure)
    await parts.decisions.addFailure(sandbox, decision.action.kind, said)
    return { seen, decision, failure }
  }
}

/** The engine's view where it follows from the look before; undefined: the engine has to be asked. */
const leftBy = ({ looked, isStale }: Before): Pick<Seen, "observed"> | undefined => {
  if (looked.failure !== undefined) return undefined
  switch (looked.decision.action.kind) {
    case "drain":
    case "undrain":
    case "stop":
      // The store alone changes with these actions.
      return isStale ? undefined : looked.seen
    case "remove":
      // A removed sandbox does not come back, whatever was reported since.
      return { observed: undefined }
    default:
      return undefined
  }
}

const act = async (parts: LookParts, sandbox: SandboxId, seen: Seen): Promise<void> => {
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
  { lives, effects }: LookParts,
  sandbox: SandboxId,
  { kind }: Action,
  observed: ObservedSandbox | undefined,
): Promise<void> => {
  if (observed === undefined) return
  if (kind === "ask") await lives.ask(sandbox)
  if (kind === "resume") await effects.resume(sandbox)
  if (kind === "adopt") await effects.adopt(observed)
  if (kind === "quarantine") await effects.quarantine(observed)
}

const actOnKnown = async (
  { rows, lives, effects, log, at, isBooting }: LookParts,
  row: SandboxRow,
  { action, reason }: Pick<Decision, "action" | "reason">,
  observed: ObservedSandbox | undefined,
): Promise<void> => {
  const { id: sandbox, workspace } = row
  const stop = async (begin: Rows["beginStop"], cause: Stop["cause"]) => {
    if (!(await begin(sandbox, { cause, reason }))) return
    log.info({ op: "sandbox.stop", sandbox, workspace, cause, reason }, "the sandbox is stopping")
    await at("stop.begun")
  }
  switch (action.kind) {
    case "keep":
      return
    case "ask":
      await lives.ask(sandbox)
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
      await rows.move(sandbox, ["draining"], isBooting(sandbox) ? "booting" : "ready")
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
