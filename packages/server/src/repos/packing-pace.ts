/** The packing time that a sandbox has at once: enough for its repos at boot, and again. */
export const PACKING_BURST_MS = 5 * 60_000

/**
 * The share of the time in which git may pack for one sandbox in the long run. Sandboxes need a bundle when they boot,
 * and seldom later.
 */
export const PACKING_SHARE = 0.2

/** The longest wait. A boot that waits longer for its repo looks broken. */
export const MAX_PACKING_WAIT_MS = 60_000

/** Limits the time that git packs for one sandbox, which may ask without end. */
export class PackingPace {
  #usedMs = 0
  #atMs = 0

  /** How long the next bundle has to wait. */
  waitMs(nowMs: number): number {
    this.#forgive(nowMs)
    const over = this.#usedMs - PACKING_BURST_MS
    return Math.min(Math.max(over / PACKING_SHARE, 0), MAX_PACKING_WAIT_MS)
  }

  spend(packedMs: number, nowMs: number): void {
    this.#forgive(nowMs)
    this.#usedMs += packedMs
  }

  #forgive(nowMs: number): void {
    this.#usedMs = Math.max(0, this.#usedMs - (nowMs - this.#atMs) * PACKING_SHARE)
    this.#atMs = nowMs
  }
}
