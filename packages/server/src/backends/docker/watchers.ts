import type { BackendEvent } from "../backend.ts"

/** Hands events to whoever watches, in order; each watcher has a queue of its own. */
export interface Watchers {
  emit(event: BackendEvent): void
  watch(signal: AbortSignal): AsyncIterable<BackendEvent>
}

/** A watcher that is this far behind is told to list again, instead of filling memory. */
const MAX_QUEUED = 10_000

export const openWatchers = (): Watchers => {
  const listeners = new Set<(event: BackendEvent) => void>()
  return {
    emit: (event) => {
      for (const listener of listeners) listener(event)
    },
    watch: (signal) => {
      let behind = false
      let leave = () => {}
      const begin = (controller: ReadableStreamDefaultController<BackendEvent>) => {
        const listener = (event: BackendEvent) => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(event)
          else behind = true
        }
        const end = () => {
          leave()
          controller.close()
        }
        leave = () => {
          listeners.delete(listener)
          signal.removeEventListener("abort", end)
        }
        listeners.add(listener)
        if (signal.aborted) end()
        else signal.addEventListener("abort", end)
      }
      // It begins before this returns, so that nothing that happens from now on is missed.
      return new ReadableStream<BackendEvent>(
        {
          start: begin,
          pull(controller) {
            if (behind) controller.enqueue({ kind: "resync" })
            behind = false
          },
          cancel: () => leave(),
        },
        { highWaterMark: MAX_QUEUED },
      )
    },
  }
}
