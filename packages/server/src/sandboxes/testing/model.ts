import type { Action, World } from "../deciding/decide.ts"
import type { Life } from "../use/lives.ts"
import { NEW_CONFIG, type Truth } from "./world.ts"

/** Applies an action to a world as it would change a real one, if nothing comes from outside. */
export const apply = (world: World, action: Action, truth: Truth): World => {
  const { known, state, life } = world
  switch (action.kind) {
    case "keep":
      return world
    case "ask":
      return { ...world, life: answer(life, truth) }
    case "adopt": {
      const uses = life.kind === "alive" ? ["exec of command 1"] : []
      return { ...world, known: newRow("ready"), uses }
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
      return presumedDead({ ...inPhase(world, "stopping"), uses: [], keeps: [] })
    case "stop":
      // The store refuses a stop where somebody uses the sandbox, or keeps it and nobody asked.
      if (world.uses.length > 0 || (world.keeps.length > 0 && !action.isAsked)) return world
      return { ...inPhase(world, "stopping"), keeps: [] }
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
  const { known, life } = world
  return {
    ...world,
    idleMs: world.idleMs + ms,
    known: known && { ...known, phaseMs: known.phaseMs + ms },
    life:
      life.kind === "silent"
        ? { ...life, forMs: life.forMs + ms, askedMs: life.askedMs + ms }
        : life,
  }
}

const answer = (before: Life, truth: Truth): Life => {
  if (truth === "alive") return { kind: "alive", what: "1 command" }
  if (truth === "none") return { kind: "none" }
  return { kind: "silent", forMs: before.kind === "silent" ? before.forMs : 0, askedMs: 0 }
}

const newRow = (phase: "ready" | "quarantined"): World["known"] => ({
  phase,
  phaseMs: 0,
  configHash: NEW_CONFIG,
  wantedHash: NEW_CONFIG,
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
