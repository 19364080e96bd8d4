import { BerthError } from "@berth/protocol/errors"

/** Waits. Rejects when the signal fires. */
export const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(cancelled())
    const onAbort = () => {
      clearTimeout(timer)
      reject(cancelled())
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort)
      resolve()
    }, ms)
    signal?.addEventListener("abort", onAbort, { once: true })
  })

export const cancelled = (cause?: unknown): BerthError =>
  new BerthError("cancelled", "the call was cancelled", { cause })
