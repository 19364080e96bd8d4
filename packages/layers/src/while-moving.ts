/** A disk that does nothing for this long is broken, or too busy to wait for. */
export const MAX_STALL_MS = 120_000

export interface Moving {
  readonly signal: AbortSignal | undefined
  readonly stallMs: number
  /** Makes the error for work that does not move any more. */
  stalled(): Error
}

/** Does work that reports progress, however long it takes, and ends it when it reports none for a while. */
export const whileMoving = async <Result>(
  { signal, stallMs, stalled }: Moving,
  work: (signal: AbortSignal, moved: () => void) => Promise<Result>,
): Promise<Result> => {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(stalled()), stallMs)
  const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal
  try {
    return await work(either, () => void timer.refresh())
  } finally {
    clearTimeout(timer)
  }
}
