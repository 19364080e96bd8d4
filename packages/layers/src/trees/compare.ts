import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { pathTooLong } from "../io/io-error.ts"
import type { Layout } from "../io/layout.ts"
import type { Changes, ChangesMessage, ChangesOrder } from "./changes.ts"
import { inThread } from "./in-thread.ts"
import type { Threads } from "./threads.ts"

export interface Comparison {
  readonly signal: AbortSignal
  /** Called with the number of entries seen so far. */
  onSeen(entries: number): void
}

/** Finds the differences between a tree and its copy, in a thread. */
export type CompareTrees = (
  order: Omit<ChangesOrder, "spill">,
  comparison: Comparison,
) => Promise<Changes>

export const openComparisons =
  ({ incoming }: Pick<Layout, "incoming">, threads: Threads): CompareTrees =>
  (order, { signal, onSeen }) =>
    inThread<ChangesMessage, Changes>(threads, {
      order: { ...order, spill: join(incoming, `walk-${randomUUID()}`) },
      hear: (message, { done, fail }) => {
        if ("seen" in message) onSeen(message.seen)
        else if ("changes" in message) done(message.changes)
        else fail(pathTooLong(order.tree, "a copy"))
      },
      signal,
    })
