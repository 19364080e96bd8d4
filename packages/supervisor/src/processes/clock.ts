/** A monotonic clock, passed in as a dependency. */
export interface Clock {
  /** Milliseconds since some fixed moment. */
  nowMs(): number
  /** Calls once after that time. The returned function cancels the call. */
  after(ms: number, call: () => void): () => void
}

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  after: (ms, call) => {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves after that time, or at once when the signal fires. Never rejects. */
export const pause = (clock: Clock, ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const end = () => {
      takeBack()
      signal.removeEventListener("abort", end)
      resolve()
    }
    const takeBack = clock.after(ms, end)
    signal.addEventListener("abort", end, { once: true })
  })
