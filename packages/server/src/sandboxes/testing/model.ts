import type { Action, World } from "../deciding/decide.ts"
import type { KnownActivity } from "../use/activities.ts"
import { NEW_CONFIG, type Truth } from "./world.ts"

/** Applies an action to a world as it would change a real one, if nothing comes from outside. */
export const apply = (world: World, action: Action, truth: Truth): World => {
  const { known, state, activity } = world
  switch (action.kind) {
    case "keep":
      return world
    case "query":
      return { ...world, activity: answer(activity, truth) }
    case "adopt": {
      const users = activity.kind === "active" ? ["exec of command 1"] : []
      return { ...world, known: newRow("ready"), users }
    }
    case "quarantine": {
      const isEnded = state === "running" || state === "paused"
      const row = known ?? newRow("quarantined")
      return { ...world, known: row, state: isEnded ? "exited" : state }
    }
    case "pause":
      return { ...world, state: "paused" }
    case "resume":
      return { ...world, state: "running" }
    case "remove":
      return { ...world, state: undefined }
    case "bury":
      return presumedDead({ ...inPhase(world, "stopping"), users: [], keptFor: [] })
    case "stop":
      // The store refuses a stop where somebody uses the sandbox, or keeps it and nobody asked.
      if (world.users.length > 0 || (world.keptFor.length > 0 && !action.isAsked)) return world
      return { ...inPhase(world, "stopping"), keptFor: [] }
    case "drain":
      return inPhase(world, "draining")
    case "undrain":
      return inPhase(world, "ready")
    case "forget":
      return inPhase(world, "gone")
  }
}

/** The same world later, if nobody does anything. */
export const later = (world: World, ms: number): World => {
  const { known, activity } = world
  return {
    ...world,
    idleMs: world.idleMs + ms,
    known: known && { ...known, phaseMs: known.phaseMs + ms },
    activity:
      activity.kind === "silent"
        ? { ...activity, forMs: activity.forMs + ms, queriedMs: activity.queriedMs + ms }
        : activity,
  }
}

const answer = (before: KnownActivity, truth: Truth): KnownActivity => {
  if (truth === "active") return { kind: "active", what: "1 command" }
  if (truth === "none") return { kind: "none" }
  return { kind: "silent", forMs: before.kind === "silent" ? before.forMs : 0, queriedMs: 0 }
}

const newRow = (phase: "ready" | "quarantined"): World["known"] => ({
  phase,
  phaseMs: 0,
  configHash: NEW_CONFIG,
  desiredHash: NEW_CONFIG,
  isReplaced: false,
  isSuccessorAsked: false,
  isPresumedDead: false,
  isBeingMade: false,
})

const presumedDead = (world: World): World => ({
  ...world,
  known: world.known && { ...world.known, isPresumedDead: true },
})

const inPhase = (world: World, phase: NonNullable<World["known"]>["phase"]): World => ({
  ...world,
  known: world.known && { ...world.known, phase, phaseMs: 0 },
})
