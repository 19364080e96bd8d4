/** Settles like the promise, or rejects with the signal's reason as soon as it fires. */
export const abortable = <Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> =>
  new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    // Also once the signal has fired: a later failure is nobody's, and must not count as unhandled.
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort))
  })
