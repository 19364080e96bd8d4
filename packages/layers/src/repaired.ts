import { BerthError } from "@berth/protocol/errors"
import type { Layers } from "./layers.ts"

/** A store that is repaired before anything uses it. */
export interface RepairedLayers extends Layers {
  /** Repairs the store, unless that is done. */
  repaired(): Promise<void>
}

/**
 * Makes every operation wait for the repair of what a crash left, which begins with the first operation. A repair that
 * fails fails the operation, and the next operation tries it again. Reading the names of workspaces waits for nothing:
 * a repair changes none of them.
 */
export const repairedFirst = (layers: Layers, repair: () => Promise<void>): RepairedLayers => {
  let repairing: Promise<void> | undefined
  let isClosed = false
  const repaired = (): Promise<void> => {
    if (isClosed && repairing === undefined) return Promise.reject(closed())
    repairing ??= repair().catch((failure: unknown) => {
      repairing = undefined
      throw failure
    })
    return repairing
  }
  const after =
    <Args extends unknown[], Result>(operation: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      await repaired()
      return await operation(...args)
    }
  return {
    repaired,
    findOwnerless: layers.findOwnerless,
    perhapsFrozen: layers.perhapsFrozen,
    verify: layers.verify,
    put: after(layers.put),
    remove: after(layers.remove),
    hasStacks: after(layers.hasStacks),
    noteOwnerless: after(layers.noteOwnerless),
    noteOwned: after(layers.noteOwned),
    ensureTop: after(layers.ensureTop),
    claimTop: after(layers.claimTop),
    releaseTop: after(layers.releaseTop),
    releaseStack: after(layers.releaseStack),
    freeze: after(layers.freeze),
    snapshot: after(layers.snapshot),
    flatten: after(layers.flatten),
    unpin: after(layers.unpin),
    collect: after(layers.collect),
    list: after(layers.list),
    exportTrees: after(layers.exportTrees),
    importTrees: after(layers.importTrees),
    close: async () => {
      isClosed = true
      await repairing?.catch(() => {})
      await layers.close()
    },
  }
}

const closed = (): BerthError => new BerthError("server.stopping", "the store of layers is closed")
