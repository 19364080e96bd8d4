/** Resolves like the promise, or rejects with the signal's reason if the signal fires first. */
export const orAborted = <Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> =>
  new Promise((resolve, reject) => {
    promise.then(resolve, reject)
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener("abort", () => reject(signal.reason), { once: true })
  })
