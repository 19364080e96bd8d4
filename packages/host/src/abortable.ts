/** Awaits work until the signal fires. The work itself goes on: other callers may wait for it as well. */
export const abortable = async <Result>(
  work: Promise<Result>,
  signal: AbortSignal,
): Promise<Result> => {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener("abort", abort, { once: true })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener("abort", abort)
    work.catch(() => {})
  }
}
