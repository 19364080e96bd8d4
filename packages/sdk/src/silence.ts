/** Aborts a call if the server says nothing for some time. */
export interface SilenceLimit {
  /** Aborts on silence, and when the caller's signal does. */
  readonly signal: AbortSignal
  isExceeded(): boolean
  /** Starts the time anew. */
  heard(): void
  /** Stops the time. */
  end(): void
}

export const limitSilence = (limitMs: number, signal: AbortSignal | undefined): SilenceLimit => {
  const silent = new AbortController()
  const start = () => setTimeout(() => silent.abort(), limitMs)
  let timer = start()
  return {
    signal: AbortSignal.any([silent.signal, ...(signal ? [signal] : [])]),
    isExceeded: () => silent.signal.aborted,
    heard: () => {
      clearTimeout(timer)
      timer = start()
    },
    end: () => clearTimeout(timer),
  }
}
