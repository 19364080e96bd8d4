import { readFileSync } from "node:fs"

/**
 * Half of the host's memory, in the units of the score: a sandbox's usage counts by this much more than the server's.
 */
const ABOVE_THE_SERVER = 500
const HIGHEST = 1_000

/** The `oom_score_adj` of processes in sandboxes. When the host is out of memory, they die before the server. */
export const sandboxOomScore = (ownFile = "/proc/self/oom_score_adj"): number =>
  Math.min(HIGHEST, Math.max(0, readScore(ownFile)) + ABOVE_THE_SERVER)

const readScore = (file: string): number => {
  try {
    return Number(readFileSync(file, "utf8")) || 0
  } catch {
    return 0
  }
}
