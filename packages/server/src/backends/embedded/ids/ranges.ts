import { RANGES, rangeAt } from "./range.ts"

/** The ranges of ids that the sandboxes of this installation run in. */
export interface IdRanges {
  /** The first id of a range that no other sandbox of this installation has; undefined where all are taken. */
  take(): number | undefined
  /** Keeps the range of a sandbox that is there already. */
  hold(base: number): void
  free(base: number): void
}

/**
 * In memory alone: each sandbox's state has its range, from which a new server holds those that are taken. Ranges
 * are handed out in turn, so that one that was freed is the last to be used again.
 */
export const openIdRanges = (installationBase: number): IdRanges => {
  const taken = new Set([installationBase])
  // Other installations of this host choose from the same ranges, and begin elsewhere.
  let next = Math.floor(Math.random() * RANGES)
  return {
    take() {
      for (let tries = 0; tries < RANGES; tries++) {
        next = (next + 1) % RANGES
        const base = rangeAt(next)
        if (taken.has(base)) continue
        taken.add(base)
        return base
      }
      return undefined
    },
    hold(base) {
      taken.add(base)
    },
    free(base) {
      if (base !== installationBase) taken.delete(base)
    },
  }
}
