/** Keeps one thing ready that takes time to make. */
export interface Spares<Thing> {
  take(signal: AbortSignal): Thing
  /** Discards the thing that waits to be taken. */
  close(): void
}

/**
 * The next spare is made after this pause, so that the sandbox that took the last one starts without waiting for it.
 */
const REFILL_AFTER_MS = 100

export const openSpares = <Thing>(
  make: (signal: AbortSignal) => Thing,
  discard: (thing: Thing) => void,
): Spares<Thing> => {
  const never = new AbortController().signal
  let spare: Thing | undefined
  let refill: NodeJS.Timeout | undefined
  let closed = false
  const refillLater = () => {
    if (closed || refill !== undefined) return
    refill = setTimeout(() => {
      refill = undefined
      try {
        spare ??= make(never)
      } catch {
        // The next caller makes one itself, and gets the error.
      }
    }, REFILL_AFTER_MS).unref()
  }
  return {
    take(signal) {
      const taken = spare ?? make(signal)
      spare = undefined
      refillLater()
      return taken
    },
    close() {
      closed = true
      clearTimeout(refill)
      if (spare !== undefined) discard(spare)
      spare = undefined
    },
  }
}
