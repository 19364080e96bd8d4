import type { Backend } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import { keepsAmong, userOf, usesAmong } from "@berth/protocol/lease"
import type { ConfigHash } from "@berth/protocol/sandbox"
import type { Clock } from "../state/clock.ts"
import { isCurrentPhase } from "../state/phases.ts"
import type { Rows } from "../state/rows.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import type { Leases } from "../use/leases.ts"
import { type ActParts, act, type Seen } from "./act.ts"
import { type Decision, decide, type Policy, type World } from "./decide.ts"

export interface LookParts extends ActParts {
  readonly backend: Pick<Backend, "inspect">
  readonly leases: Leases
  readonly clock: Clock
  readonly policy: Policy
  readonly canPause: boolean
  readonly isBeingMade: (sandbox: SandboxId) => boolean
  /** Why the sandbox is to make room, if it is. */
  readonly pressure: (sandbox: SandboxId) => string | undefined
  /** Why the sandbox's processes are halted, if they are. */
  readonly halted: (sandbox: SandboxId) => string | undefined
  readonly desiredHash: (row: SandboxRow) => Promise<ConfigHash | undefined>
  /** Why the boot failed, for a sandbox in the phase `failed`. */
  readonly bootFailure: (row: SandboxRow) => Promise<string | undefined>
  /** Whether somebody asked for the sandbox's successor, or changed its workspace since it was made. */
  readonly isSuccessorAsked: (row: SandboxRow) => Promise<boolean>
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
  const { rows, leases, activities, clock, policy, canPause } = parts
  // Creation is checked before and after the reads: they may be from before the sandbox was made, and it may be
  // complete when they end.
  const wasBeingMade = parts.isBeingMade(sandbox)
  const [row, observed, held] = await Promise.all([
    rows.get(sandbox),
    left === undefined ? parts.backend.inspect(sandbox) : left.observed,
    leases.of(sandbox),
  ])
  const desiredHash = row && (await parts.desiredHash(row))
  // Only a lease that keeps a stale sandbox can give way to its successor, so the question is not asked otherwise.
  const mayGiveWay = desiredHash !== row?.configHash && held.length > 0
  const world: World = {
    known: row && {
      phase: row.phase,
      configHash: row.configHash,
      // The phase gets no negative age when the wall clock is set back.
      phaseMs: Math.max(0, clock.now() - row.phaseAtMs),
      desiredHash,
      isSuccessorAsked: mayGiveWay && (await parts.isSuccessorAsked(row)),
      bootFailure: row.phase === "failed" ? await parts.bootFailure(row) : undefined,
      isPresumedDead: row.stop?.cause === "ended",
      isReplaced: row.phase === "draining" && (await hasOther(rows, row)),
      isBeingMade: wasBeingMade || parts.isBeingMade(sandbox),
    },
    state: observed?.state,
    activity: activities.of(sandbox),
    users: usesAmong(held).map(userOf),
    keptFor: keepsAmong(held).map(userOf),
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
