import { setTimeout as pause } from "node:timers/promises"

/**
 * The pause between two looks at the fence. While the fence is away its sandboxes are cut off, so this is how long they
 * may lack the internet; a look takes one process of nft.
 */
const LOOK_EVERY_MS = 2_000

/** The outcome for a fence that somebody took away. */
export type FenceNews =
  | { readonly kind: "restored" }
  | { readonly kind: "failed"; readonly failure: unknown }
export type OnFence = (news: FenceNews) => void

export interface FenceWatch {
  /** Looks at the fence at once, and from then on until it is closed. */
  begin(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Restores a fence that a firewall's restart has flushed. A failure is told once, and tried again. */
export const openFenceWatch = (
  restore: (signal: AbortSignal) => Promise<boolean>,
  tell: OnFence,
): FenceWatch => {
  const ended = new AbortController()
  let isFailing = false
  let loop: Promise<void> | undefined

  const look = async (signal: AbortSignal): Promise<void> => {
    try {
      if (await restore(signal)) tell({ kind: "restored" })
      isFailing = false
    } catch (failure) {
      if (!isFailing && !signal.aborted) tell({ kind: "failed", failure })
      isFailing = true
    }
  }
  const watch = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      await pause(LOOK_EVERY_MS, undefined, { signal: ended.signal, ref: false }).catch(() => {})
      if (!ended.signal.aborted) await look(ended.signal)
    }
  }

  return {
    async begin(signal) {
      await look(AbortSignal.any([signal, ended.signal]))
      loop ??= watch()
    },
    async close() {
      ended.abort()
      await loop
    },
  }
}
