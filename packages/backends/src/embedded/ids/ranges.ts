import { RANGES, rangeAt } from "./range.ts"

/** The ranges of ids that the sandboxes of this installation run in. */
export interface IdRanges {
  /** Gives the first id of a range that no other sandbox of this installation has; undefined if all are taken. */
  take(): number | undefined
  /** Reserves the range of a sandbox that exists already. */
  hold(base: number): void
  free(base: number): void
}

/**
 * Keeps the ranges in memory alone: each sandbox's state has its range, and a new server holds those. Ranges are handed
 * out in turn, so that a freed one is the last to be used again.
 */
export const openIdRanges = (installationBase: number): IdRanges => {
  const taken = new Set([installationBase])
  // Other installations of this host choose from the same ranges, so each begins at a random one.
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
