import { type Clock, pause } from "../clock.ts"
import { idOf, type ProcessEntry, stillRuns } from "./proc.ts"
import type { Grove } from "./tree.ts"

/**
 * Intervals at which exits are polled, as there is no event for a process that is not our child. A look costs
 * microseconds.
 */
const FIRST_LOOK_MS = 2
const LONGEST_LOOK_MS = 50
/** Interval between two rounds of SIGKILL, for processes that were forked meanwhile. */
const KILL_ROUND_MS = 100
/**
 * How long SIGKILL is waited for. It works at once, except on a process that waits for a disk or a network file system.
 */
export const KILL_CONFIRM_MS = 2_000

export interface EndOptions {
  readonly clock: Clock
  /** Time from SIGTERM to SIGKILL. */
  readonly graceMs: number
  /** Cuts the grace short. */
  readonly hurry?: AbortSignal | undefined
}

/** The result of ending a tree. */
export interface TreeEnd {
  /** The number of processes that got SIGTERM. */
  readonly asked: number
  /** The number of processes that got SIGKILL. */
  readonly killed: number
  /** The pids of processes that outlived SIGKILL. */
  readonly left: readonly number[]
}

export const NOTHING_ENDED: TreeEnd = { asked: 0, killed: 0, left: [] }

/** Sends SIGTERM to all processes, waits for them within the grace, and kills the rest. Never rejects. */
export const endTree = async (
  grove: Grove,
  { clock, graceMs, hurry }: EndOptions,
): Promise<TreeEnd> => {
  const graceEndsAtMs = clock.nowMs() + graceMs
  const never = new AbortController().signal
  const asked = new Set<string>()
  const killed = new Set<string>()
  let giveUpAtMs: number | undefined
  for (;;) {
    const running = await grove.find()
    const isForced = hurry?.aborted === true || clock.nowMs() >= graceEndsAtMs
    if (isForced) giveUpAtMs ??= clock.nowMs() + KILL_CONFIRM_MS
    if (running.length === 0 || clock.nowMs() >= (giveUpAtMs ?? Infinity))
      return { asked: asked.size, killed: killed.size, left: running.map(({ pid }) => pid) }
    if (isForced) {
      grove.signal(running, "SIGKILL")
      for (const entry of running) killed.add(idOf(entry))
      await allGone(running, { clock, withinMs: KILL_ROUND_MS, hurry: never })
    } else {
      grove.signal(running, "SIGTERM")
      // A process that is stopped does not act on SIGTERM.
      grove.signal(running, "SIGCONT")
      for (const entry of running) asked.add(idOf(entry))
      const withinMs = graceEndsAtMs - clock.nowMs()
      await allGone(running, { clock, withinMs, hurry: hurry ?? never })
    }
  }
}

/** Resolves when none of the processes runs, when the time is over, or when `hurry` fires. */
const allGone = async (
  entries: readonly ProcessEntry[],
  { clock, withinMs, hurry }: { clock: Clock; withinMs: number; hurry: AbortSignal },
): Promise<void> => {
  const untilMs = clock.nowMs() + withinMs
  let lookMs = FIRST_LOOK_MS
  while (entries.some(stillRuns)) {
    const leftMs = untilMs - clock.nowMs()
    if (leftMs <= 0 || hurry.aborted) return
    await pause(clock, Math.min(lookMs, leftMs), hurry)
    lookMs = Math.min(2 * lookMs, LONGEST_LOOK_MS)
  }
}
