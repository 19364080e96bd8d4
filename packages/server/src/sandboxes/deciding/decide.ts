import type { EngineState } from "@berth/backends/backend"
import type { ConfigHash } from "@berth/protocol/sandbox"
import type { StopCause, StoredPhase } from "../../store/database.ts"
import type { KnownActivity } from "../use/activities.ts"

/** The times that sandboxes stay in each state before something is done about them. */
export interface Policy {
  /** A sandbox is paused after it was unused for this long; null: never. */
  readonly pauseAfterMs: number | null
  /** A sandbox is stopped after it was unused for this long, and its files are kept; null: never. */
  readonly stopAfterMs: number | null
  /** A sandbox whose boot failed stays up for this long, and longer while somebody uses it. */
  readonly failedBootKeepMs: number
  /** A quarantined sandbox is kept for this long. */
  readonly quarantineMs: number
  /** A sandbox may leave queries for its activity unanswered for this long. */
  readonly silentMs: number
}

/** The store's knowledge of a sandbox. */
export interface Known {
  readonly phase: StoredPhase
  /** How long the sandbox has been in that phase. */
  readonly phaseMs: number
  readonly configHash: ConfigHash
  /** The config hash that the workspace asks for now; undefined: not known yet. */
  readonly desiredHash: ConfigHash | undefined
  /** The workspace has another sandbox as its current one. */
  readonly isReplaced: boolean
  /** A person has asked for the successor of this sandbox, if it is stale. */
  readonly isSuccessorAsked: boolean
  /**
   * The sandbox is stopping or gone because it was found dead. That may be wrong: an engine can lose sight of a
   * sandbox.
   */
  readonly isPresumedDead: boolean
  /** Why the boot failed, for a sandbox in the phase `failed`. */
  readonly bootFailure?: string | undefined
  /** The sandbox is being made or copied by this server right now. */
  readonly isBeingMade: boolean
}

/** The facts that a decision rests on, read at one moment. */
export interface World {
  /** undefined: the store does not know the sandbox. */
  readonly known: Known | undefined
  /** undefined: the engine does not have the sandbox. */
  readonly state: EngineState | undefined
  readonly activity: KnownActivity
  /** The users of the sandbox, in words. */
  readonly users: readonly string[]
  /** The holders of leases that yield: they give way to requests. */
  readonly keptFor: readonly string[]
  /** How long nobody has used the sandbox. */
  readonly idleMs: number
  /** The resource of the host that runs low, in words. */
  readonly pressure: string | undefined
  /** Why the processes of the sandbox are halted, if they are: it fills the disk. */
  readonly halted: string | undefined
  readonly canPause: boolean
  readonly policy: Policy
}

export type Action =
  | { readonly kind: "keep" }
  /** Queries the sandbox's activity. */
  | { readonly kind: "query" }
  | { readonly kind: "adopt" }
  /** Stops the sandbox and keeps its files. */
  | { readonly kind: "quarantine" }
  | { readonly kind: "drain" }
  /** Makes a draining sandbox current again: its config is wanted again. */
  | { readonly kind: "undrain" }
  | { readonly kind: "pause" }
  | { readonly kind: "resume" }
  /**
   * Moves the sandbox to `stopping`: from then on nobody gets it. The store refuses if somebody has taken a lease
   * since.
   */
  | {
      readonly kind: "stop"
      readonly cause: StopCause
      /** A person asked for the successor: leases that yield give way. */
      readonly isAsked?: boolean
    }
  /** Marks a dead sandbox as stopping, and ends its leases. */
  | { readonly kind: "bury" }
  /** Ends the sandbox's processes and removes it from its engine. */
  | { readonly kind: "remove" }
  /** Marks the sandbox as gone: its engine has nothing left of it. */
  | { readonly kind: "forget" }

export interface Decision {
  readonly action: Action
  readonly reason: string
  /** When to look again if nothing happens before; undefined: nothing will change by itself. */
  readonly againInMs?: number
}

/** The pause between two queries to a sandbox that does not answer. */
const QUERY_AGAIN_MS = 5_000
/** The pause once a sandbox has been silent for `silentMs`: nobody waits for it any more, but it may come back. */
const QUERY_SELDOM_MS = 60_000

/** Decides the next action for a sandbox. Never removes one that is in use. */
export const decide = (world: World): Decision => {
  const { known, state, halted } = world
  if (known === undefined) return halted === undefined ? decideUnknown(world) : keep(halted)
  switch (known.phase) {
    case "gone":
      if (state === undefined) return keep("it is gone")
      return (
        decideReturned(world, known) ?? {
          action: { kind: "remove" },
          reason: "it is gone, but its engine still has it",
        }
      )
    case "stopping":
      if (state === undefined) return { action: { kind: "forget" }, reason: "it has ended" }
      return (
        decideReturned(world, known) ?? { action: { kind: "remove" }, reason: "it is stopping" }
      )
    case "quarantined":
      return decideQuarantined(world, known)
    default:
      return decideLive(world, known)
  }
}

/** Decides about a sandbox that was presumed dead and runs. It is queried before anything of it is ended. */
const decideReturned = (world: World, { isPresumedDead }: Known): Decision | undefined => {
  const { state, activity } = world
  if (!isPresumedDead || (state !== "running" && state !== "paused")) return undefined
  if (state === "paused")
    return { action: { kind: "resume" }, reason: "it was presumed dead, and is frozen" }
  const queried = query(world)
  if (queried !== undefined || activity.kind !== "active") return queried
  return { action: { kind: "adopt" }, reason: `it was presumed dead, and has ${activity.what}` }
}

const decideUnknown = (world: World): Decision => {
  const { state, activity } = world
  if (state === undefined) return keep("it is gone")
  if (state === "created" || state === "exited")
    return { action: { kind: "quarantine" }, reason: "it is not known, and nothing runs in it" }
  if (state === "paused")
    return { action: { kind: "resume" }, reason: "it is not known, and cannot answer while frozen" }
  const queried = query(world)
  if (queried !== undefined) return queried
  if (activity.kind === "active")
    return { action: { kind: "adopt" }, reason: `it was not known, and has ${activity.what}` }
  const why = activity.kind === "none" ? "nothing is active in it" : "it does not answer"
  return { action: { kind: "quarantine" }, reason: `it is not known, and ${why}` }
}

/** Queries the sandbox's activity, or waits for the answer. Undefined: the decision needs no query. */
const query = ({ activity, policy }: World): Decision | undefined => {
  if (activity.kind === "unknown")
    return { action: { kind: "query" }, reason: "its activity is not known" }
  if (activity.kind !== "silent") return undefined
  const isGivenUp = activity.forMs >= policy.silentMs
  if (activity.queriedMs >= (isGivenUp ? QUERY_SELDOM_MS : QUERY_AGAIN_MS))
    return { action: { kind: "query" }, reason: "it has not answered" }
  return isGivenUp ? undefined : keep("it does not answer", QUERY_AGAIN_MS - activity.queriedMs)
}

const decideQuarantined = ({ state, policy }: World, { phaseMs }: Known): Decision => {
  if (state === undefined) return { action: { kind: "forget" }, reason: "it has ended" }
  const leftMs = policy.quarantineMs - phaseMs
  if (leftMs <= 0)
    return { action: { kind: "stop", cause: "ended" }, reason: "its time in quarantine is over" }
  if (state === "running" || state === "paused")
    return { action: { kind: "quarantine" }, reason: "it is quarantined, and still runs" }
  return keep("it is quarantined: berth recover gives its files back", leftMs)
}

const decideLive = (world: World, known: Known): Decision => {
  const { state, users, keptFor } = world
  if (known.isBeingMade) return keep("it is being made or copied")
  if (state === undefined) return { action: { kind: "bury" }, reason: "its engine has lost it" }
  if (state === "created")
    return { action: { kind: "bury" }, reason: "its creation was not finished" }
  if (state === "exited") return { action: { kind: "bury" }, reason: "its processes have ended" }
  // A halted sandbox is neither queried nor woken until there is room, also while it is used.
  if (world.halted !== undefined) return keep(world.halted)
  // A paused sandbox cannot answer, and nobody used it when it was paused.
  const queried = state === "running" ? query(world) : undefined
  if (queried !== undefined) return queried
  if (known.phase === "failed") return decideFailed(world, known)
  const givesWay = known.isSuccessorAsked && staleness(known) !== undefined
  const isKept = keptFor.length > 0 && !givesWay
  return users.length > 0 || isKept ? decideUsed(world, known) : decideUnused(world, known)
}

/** Why the sandbox is not the one that its workspace wants; undefined: it is. */
const staleness = ({ desiredHash, configHash, isReplaced }: Known): string | undefined => {
  if (isReplaced) return "its workspace has another one"
  if (desiredHash !== undefined && desiredHash !== configHash) return "its workspace has changed"
  return undefined
}

/**
 * Decides about a sandbox whose boot failed and that stays up for a while. No session can go on in it, so leases that
 * yield do not count.
 */
const decideFailed = ({ users, pressure, policy }: World, known: Known): Decision => {
  const why = `its boot failed: ${known.bootFailure ?? "not said why"}`
  if (users.length > 0) return keep(`${why}; used by ${listed(users)}`)
  const stop = (cause: StopCause, reason: string): Decision => ({
    action: { kind: "stop", cause, isAsked: true },
    reason,
  })
  const stale = staleness(known)
  if (stale !== undefined) return stop("stale", `its boot failed, and ${stale}`)
  if (pressure !== undefined) return stop("pressure", `${pressure}, and its boot failed`)
  const { failedBootKeepMs } = policy
  const leftMs = failedBootKeepMs - known.phaseMs
  if (leftMs <= 0) return stop("idle", `${why}; it stayed up for ${spoken(failedBootKeepMs)}`)
  return keep(`${why}; it stays up for ${spoken(failedBootKeepMs)} to be looked at`, leftMs)
}

const decideUsed = ({ state, users, keptFor }: World, known: Known): Decision => {
  const inUse = users.length > 0 ? `used by ${listed(users)}` : `kept for ${listed(keptFor)}`
  const stale = staleness(known)
  if (stale !== undefined && known.phase !== "draining")
    return { action: { kind: "drain" }, reason: `${stale}; ${inUse}` }
  if (stale === undefined && known.phase === "draining" && known.desiredHash !== undefined)
    return { action: { kind: "undrain" }, reason: "its workspace is again as it was" }
  if (state === "paused") return { action: { kind: "resume" }, reason: inUse }
  if (stale !== undefined) return keep(`${stale}; it is replaced when it is no longer ${inUse}`)
  return keep(inUse)
}

const decideUnused = (world: World, known: Known): Decision => {
  const { state, idleMs, pressure, canPause, policy } = world
  const stale = staleness(known)
  if (stale !== undefined) {
    // Users of a draining sandbox will want its successor. If nobody used the stale one, perhaps nobody wants the next.
    const cause = known.phase === "draining" ? "drained" : "stale"
    const action = { kind: "stop", cause } as const
    return { action: known.isSuccessorAsked ? { ...action, isAsked: true } : action, reason: stale }
  }
  if (known.phase === "draining" && known.desiredHash !== undefined)
    return { action: { kind: "undrain" }, reason: "its workspace is again as it was" }
  if (known.phase === "ready" && pressure !== undefined)
    return {
      action: { kind: "stop", cause: "pressure" },
      reason: `${pressure}, and nobody uses it`,
    }
  const { stopAfterMs, pauseAfterMs } = policy
  if (stopAfterMs !== null && idleMs >= stopAfterMs)
    return {
      action: { kind: "stop", cause: "idle" },
      reason: `nobody has used it for ${spoken(stopAfterMs)}`,
    }
  const stopsInMs = stopAfterMs === null ? undefined : stopAfterMs - idleMs
  if (state === "paused") return keep("nobody uses it", stopsInMs)
  if (known.phase !== "ready" || pauseAfterMs === null || !canPause)
    return keep(known.phase === "booting" ? "it is booting" : "nobody uses it", stopsInMs)
  if (idleMs >= pauseAfterMs)
    return {
      action: { kind: "pause" },
      reason: `nobody has used it for ${spoken(pauseAfterMs)}`,
    }
  const pausesInMs = pauseAfterMs - idleMs
  return keep("nobody uses it", Math.min(pausesInMs, stopsInMs ?? pausesInMs))
}

const keep = (reason: string, againInMs?: number): Decision => ({
  action: { kind: "keep" },
  reason,
  ...(againInMs !== undefined && { againInMs }),
})

/** A reason names only the first few users: people read it. */
const MAX_NAMED = 3

const listed = (users: readonly string[]): string => {
  const named = users.slice(0, MAX_NAMED).join(", ")
  const others = users.length - MAX_NAMED
  return others > 0 ? `${named} and ${others} more` : named
}

const spoken = (ms: number): string => {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
}
