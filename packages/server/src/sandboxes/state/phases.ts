import type { StoredPhase } from "../../store/database.ts"

/** The phases in which a sandbox gets new uses. */
export const CURRENT_PHASES = ["creating", "booting", "ready"] as const

export const isCurrentPhase = (phase: StoredPhase): boolean =>
  CURRENT_PHASES.some((current) => current === phase)

/** The phases in which a sandbox can be used: one that is `failed` has ended its boot, and stays up to be looked at. */
export const USABLE_PHASES = [...CURRENT_PHASES, "draining", "failed"] as const
