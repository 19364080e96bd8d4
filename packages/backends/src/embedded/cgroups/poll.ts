import { setTimeout as delay } from "node:timers/promises"

const FIRST_PAUSE_MS = 1
/** The kernel sends no event when a v1 cgroup empties or freezes; a look this often costs nothing. */
const LONGEST_PAUSE_MS = 32

/**
 * Repeats a check at growing distances until it holds. Returns false if it did not hold within the time. An abort
 * rejects with the signal's reason.
 */
export const poll = async (
  isSo: () => Promise<boolean>,
  { signal, withinMs }: { signal: AbortSignal; withinMs: number },
): Promise<boolean> => {
  const endsAt = performance.now() + withinMs
  let pauseMs = FIRST_PAUSE_MS
  for (;;) {
    signal.throwIfAborted()
    if (await isSo()) return true
    const leftMs = endsAt - performance.now()
    if (leftMs <= 0) return false
    await pause(Math.min(pauseMs, leftMs), signal)
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
  }
}

const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
  try {
    await delay(ms, undefined, { signal })
  } catch {
    // Only an abort ends the pause early; the signal's own reason is thrown.
    signal.throwIfAborted()
  }
}
