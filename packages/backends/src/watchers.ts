import type { BackendEvent } from "./backend.ts"

/** Hands events to all watchers, in order; each watcher has a queue of its own. */
export interface Watchers {
  emit(event: BackendEvent): void
  watch(signal: AbortSignal): AsyncIterable<BackendEvent>
}

/** A watcher that is this far behind is told to list again, instead of filling memory. */
const MAX_QUEUED = 10_000

export const openWatchers = (
  /**
   * Called for each new watcher: starts a source of events for it alone, and returns a function that ends that source.
   */
  feed: (emit: (event: BackendEvent) => void) => () => void = () => () => {},
): Watchers => {
  const listeners = new Set<(event: BackendEvent) => void>()
  return {
    emit: (event) => {
      for (const listener of listeners) listener(event)
    },
    watch: (signal) => {
      let queue: BackendEvent[] = []
      let wake: () => void = () => {}
      const push = (event: BackendEvent) => {
        if (queue.length >= MAX_QUEUED) queue = [{ kind: "resync" }]
        else queue.push(event)
        wake()
      }
      // Everything is set up before this returns, so that no later event is missed.
      listeners.add(push)
      const stopFeed = feed(push)
      const end = () => {
        listeners.delete(push)
        stopFeed()
        wake()
      }
      if (signal.aborted) end()
      else signal.addEventListener("abort", end, { once: true })
      return (async function* () {
        while (!signal.aborted) {
          const ready = queue
          queue = []
          yield* ready
          if (queue.length > 0 || signal.aborted) continue
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      })()
    },
  }
}
