import type { ConfigHash } from "@berth/protocol/sandbox"
import type { EngineState } from "../backends/backend.ts"
import type { StopCause, StoredPhase } from "../store/database.ts"

/** How long things may be left as they are. */
export interface Policy {
  /** Unused for so long, a sandbox is frozen; null: never. */
  readonly pauseAfterMs: number | null
  /** Unused for so long, it is stopped, and its files are kept; null: never. */
  readonly stopAfterMs: number | null
  /** How long one whose boot failed stays up; longer while somebody uses it. */
  readonly failedBootKeepMs: number
  /** How long a quarantined one is kept. */
  readonly quarantineMs: number
  /** How long one may leave it open whether anything lives in it. */
  readonly silentMs: number
}

/** What the store knows of a sandbox. */
export interface Known {
  readonly phase: StoredPhase
  /** How long it has been in that phase. */
  readonly phaseMs: number
  readonly configHash: ConfigHash
  /** What its workspace wants now; undefined: that is not known yet. */
  readonly wantedHash: ConfigHash | undefined
  /** Another one is its workspace's current one. */
  readonly isReplaced: boolean
  /** A person has asked for the one that takes its place, if it is stale. */
  readonly isSuccessorAsked: boolean
  /** It is stopping or gone because it was found dead, which may have been wrong: an engine can lose sight of one. */
  readonly isPresumedDead: boolean
  /** Why its boot failed, of one in that phase. */
  readonly bootFailure?: string | undefined
  /** This server makes or copies it right now. */
  readonly isBeingMade: boolean
}

/** What its supervisor said of what lives in it, since this server runs. */
export type Life =
  | { readonly kind: "not asked" }
  | { readonly kind: "alive"; readonly what: string }
  | { readonly kind: "none" }
  /** It did not answer, first and last so long ago. */
  | { readonly kind: "silent"; readonly forMs: number; readonly askedMs: number }

/** All that a decision rests on, read at one moment. */
export interface World {
  /** undefined: the store does not know it. */
  readonly known: Known | undefined
  /** undefined: its engine does not have it. */
  readonly state: EngineState | undefined
  readonly life: Life
  /** Who uses it, in words. */
  readonly uses: readonly string[]
  /** The names of those it is only kept for: they give way to whatever somebody asks for. */
  readonly keeps: readonly string[]
  /** How long nobody has. */
  readonly idleMs: number
  /** What of the host runs low. */
  readonly pressure: string | undefined
  /** Why its processes are halted, if they are: it fills the disk. */
  readonly halted: string | undefined
  readonly canPause: boolean
  readonly policy: Policy
}

export type Action =
  | { readonly kind: "keep" }
  /** Of one that the store does not know: what lives in it. */
  | { readonly kind: "ask" }
  | { readonly kind: "adopt" }
  /** Stopped, its files kept. */
  | { readonly kind: "quarantine" }
  | { readonly kind: "drain" }
  /** It is wanted again. */
  | { readonly kind: "undrain" }
  | { readonly kind: "pause" }
  | { readonly kind: "resume" }
  /** From here on nobody gets it; refused by the store if somebody came in between. */
  | {
      readonly kind: "stop"
      readonly cause: StopCause
      /** Somebody asked for its successor: those whom it is only kept for give way. */
      readonly isAsked?: boolean
    }
  /** It is dead: whatever was claimed of it ends with it. */
  | { readonly kind: "bury" }
  /** Ends its processes and takes it from its engine. */
  | { readonly kind: "remove" }
  /** The engine has nothing left of it: neither shall we. */
  | { readonly kind: "forget" }

export interface Decision {
  readonly action: Action
  readonly reason: string
  /** When to look again if nothing happens before; undefined: nothing will change by itself. */
  readonly againInMs?: number
}

/** Between two questions to a sandbox that does not answer. */
const ASK_AGAIN_MS = 5_000
/** The same when it has been silent for so long that nobody waits for it any more: it may come back. */
const ASK_SELDOM_MS = 60_000

/** Decides the next action for a sandbox. Never takes away one that is in use. */
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

/** What is to be done about one that was taken for dead and runs: it is asked before anything of it is ended. */
const decideReturned = (world: World, { isPresumedDead }: Known): Decision | undefined => {
  const { state, life } = world
  if (!isPresumedDead || (state !== "running" && state !== "paused")) return undefined
  if (state === "paused")
    return { action: { kind: "resume" }, reason: "it was taken for dead, and is frozen" }
  const question = ask(world)
  if (question !== undefined || life.kind !== "alive") return question
  return { action: { kind: "adopt" }, reason: `it was taken for dead, and has ${life.what}` }
}

const decideUnknown = (world: World): Decision => {
  const { state, life } = world
  if (state === undefined) return keep("it is gone")
  if (state === "created" || state === "exited")
    return { action: { kind: "quarantine" }, reason: "it is not known, and nothing runs in it" }
  if (state === "paused")
    return { action: { kind: "resume" }, reason: "it is not known, and cannot answer while frozen" }
  const question = ask(world)
  if (question !== undefined) return question
  if (life.kind === "alive")
    return { action: { kind: "adopt" }, reason: `it was not known, and has ${life.what}` }
  const why = life.kind === "none" ? "nothing lives in it" : "it does not answer"
  return { action: { kind: "quarantine" }, reason: `it is not known, and ${why}` }
}

/** Whether it is to be asked, or waited for, before anything is decided. */
const ask = ({ life, policy }: World): Decision | undefined => {
  if (life.kind === "not asked")
    return { action: { kind: "ask" }, reason: "what lives in it is not known" }
  if (life.kind !== "silent") return undefined
  const isGivenUp = life.forMs >= policy.silentMs
  if (life.askedMs >= (isGivenUp ? ASK_SELDOM_MS : ASK_AGAIN_MS))
    return { action: { kind: "ask" }, reason: "it has not answered" }
  return isGivenUp ? undefined : keep("it does not answer", ASK_AGAIN_MS - life.askedMs)
}

const decideQuarantined = ({ state, policy }: World, { phaseMs }: Known): Decision => {
  if (state === undefined) return { action: { kind: "forget" }, reason: "it has ended" }
  const leftMs = policy.quarantineMs - phaseMs
  if (leftMs <= 0)
    return { action: { kind: "stop", cause: "ended" }, reason: "its time in quarantine is over" }
  if (state === "running" || state === "paused")
    return { action: { kind: "quarantine" }, reason: "it is quarantined, and still runs" }
  return keep("it is quarantined: berth adopt takes it up again", leftMs)
}

const decideLive = (world: World, known: Known): Decision => {
  const { state, uses, keeps } = world
  if (known.isBeingMade) return keep("it is being made or copied")
  if (state === undefined) return { action: { kind: "bury" }, reason: "its engine has lost it" }
  if (state === "created")
    return { action: { kind: "bury" }, reason: "whoever made it did not finish" }
  if (state === "exited") return { action: { kind: "bury" }, reason: "its processes have ended" }
  // Neither asked nor woken, whoever uses it, until there is room.
  if (world.halted !== undefined) return keep(world.halted)
  // One that is frozen does not answer; nobody used it when that was done.
  const question = state === "running" ? ask(world) : undefined
  if (question !== undefined) return question
  if (known.phase === "failed") return decideFailed(world, known)
  const givesWay = known.isSuccessorAsked && staleness(known) !== undefined
  const isKept = keeps.length > 0 && !givesWay
  return uses.length > 0 || isKept ? decideUsed(world, known) : decideUnused(world, known)
}

/** Why it is not the one that its workspace wants. */
const staleness = ({ wantedHash, configHash, isReplaced }: Known): string | undefined => {
  if (isReplaced) return "its workspace has another one"
  if (wantedHash !== undefined && wantedHash !== configHash) return "its workspace has changed"
  return undefined
}

/** Decides about a sandbox whose boot failed and that stays up for a while. No session can go on in it, so those it is kept for do not count. */
const decideFailed = ({ uses, pressure, policy }: World, known: Known): Decision => {
  const why = `its boot failed: ${known.bootFailure ?? "not said why"}`
  if (uses.length > 0) return keep(`${why}; used by ${listed(uses)}`)
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

const decideUsed = ({ state, uses, keeps }: World, known: Known): Decision => {
  const users = uses.length > 0 ? `used by ${listed(uses)}` : `kept for ${listed(keeps)}`
  const stale = staleness(known)
  if (stale !== undefined && known.phase !== "draining")
    return { action: { kind: "drain" }, reason: `${stale}; ${users}` }
  if (stale === undefined && known.phase === "draining" && known.wantedHash !== undefined)
    return { action: { kind: "undrain" }, reason: "its workspace is again as it was" }
  if (state === "paused") return { action: { kind: "resume" }, reason: users }
  if (stale !== undefined) return keep(`${stale}; it is replaced when it is no longer ${users}`)
  return keep(users)
}

const decideUnused = (world: World, known: Known): Decision => {
  const { state, idleMs, pressure, canPause, policy } = world
  const stale = staleness(known)
  if (stale !== undefined) {
    // Who has used it until now will want the next one; of one that nobody used, nobody may.
    const cause = known.phase === "draining" ? "drained" : "stale"
    const action = { kind: "stop", cause } as const
    return { action: known.isSuccessorAsked ? { ...action, isAsked: true } : action, reason: stale }
  }
  if (known.phase === "draining" && known.wantedHash !== undefined)
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

/** The first few: a reason is read by people. */
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
