/** Interval between the starts of two attempts: how late readiness is noticed at worst. */
export const POLL_INTERVAL_MS = 50
/**
 * Time limit of one attempt. A server may accept a connection before it can answer, and then never answer that one
 * (OpenCode does so for 0.3 s). So an attempt ends early, and the next has begun by then.
 */
export const ATTEMPT_LIMIT_MS = 150

/** A single attempt, which the signal ends. False, or a rejection, means "not yet". */
export type Attempt = (signal: AbortSignal) => Promise<boolean>

/** Calls `attemptNow` when an early attempt may succeed. The returned function ends that. */
export type Wake = (attemptNow: () => void) => () => void

/** Makes attempts at a steady pace, also while earlier ones are open, until one succeeds. */
export const untilOneSucceeds = (
  attempt: Attempt,
  signal: AbortSignal,
  wake: Wake = () => () => {},
): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const over = new AbortController()
    const settle = (settleIt: () => void) => {
      if (over.signal.aborted) return
      clearInterval(timer)
      stopWaking()
      signal.removeEventListener("abort", cancel)
      over.abort()
      settleIt()
    }
    const cancel = () => settle(() => reject(signal.reason))
    const attemptNow = () => {
      if (over.signal.aborted) return
      const limit = new AbortController()
      const end = () => limit.abort()
      const limitTimer = setTimeout(end, ATTEMPT_LIMIT_MS)
      over.signal.addEventListener("abort", end, { once: true })
      void attempt(limit.signal)
        .catch(() => false)
        .then((isReady) => {
          clearTimeout(limitTimer)
          over.signal.removeEventListener("abort", end)
          if (isReady) settle(resolve)
        })
    }
    signal.addEventListener("abort", cancel, { once: true })
    const timer = setInterval(attemptNow, POLL_INTERVAL_MS)
    const stopWaking = wake(attemptNow)
    attemptNow()
  })
