/** What takes time to make, one of which is always ready. */
export interface Spares<Thing> {
  take(signal: AbortSignal): Thing
  /** Ends what waits to be taken. */
  close(): void
}

/** The next one is made when the sandbox that took the last one has had time to start: it need not wait for it. */
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
        // Whoever needs one makes it, and hears why it cannot be made.
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
