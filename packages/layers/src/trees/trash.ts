import { join } from "node:path"
import { abortable } from "@berth/host/abortable"
import { namesIn } from "../io/names-in.ts"
import { discardTree } from "./discard.ts"

/** Trees that have been thrown away: they have no other name any more, and are deleted in the background. */
export interface Trash {
  /** The number of trees still to be deleted. */
  count(): Promise<number>
  /** Begins to delete all trees in the trash, also those of an earlier process. */
  empty(): void
  /** Resolves when all trees that are there now are deleted. A signal ends the wait alone. */
  emptied(signal?: AbortSignal): Promise<void>
  /** Stops deleting; the next process goes on. */
  close(): Promise<void>
}

/**
 * Deletes one tree after another with low priority. A sandbox decides how long that takes, so only calls that need the
 * space wait for it.
 */
export const openTrash = (directory: string, at: (step: string) => void | Promise<void>): Trash => {
  const over = new AbortController()
  let running: Promise<void> | undefined
  let isAsked = false

  const deleteAll = async (): Promise<void> => {
    let failure: unknown
    while (isAsked && !over.signal.aborted) {
      isAsked = false
      failure = undefined
      for (const name of await namesIn(directory)) {
        try {
          await discardTree(join(directory, name), { signal: over.signal, isUrgent: false })
          await at("collect.deleted")
        } catch (thrown) {
          // A failure to delete one tree does not keep the others.
          failure ??= thrown
        }
      }
    }
    if (failure !== undefined) throw failure
  }
  const run = (): Promise<void> => {
    isAsked = true
    running ??= deleteAll().finally(() => {
      running = undefined
    })
    return running
  }
  return {
    count: async () => (await namesIn(directory)).length,
    // A tree that could not be deleted stays in the listing, and is tried again with the next one.
    empty: () => void run().catch(() => {}),
    emptied: (signal) => (signal === undefined ? run() : abortable(run(), signal)),
    close: async () => {
      over.abort(new Error("the store is closed"))
      await running?.catch(() => {})
    },
  }
}
