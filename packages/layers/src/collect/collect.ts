import { rename } from "node:fs/promises"
import { join } from "node:path"
import { syncDirectory } from "@berth/host/sync-directory"
import type { LayerId, TopId } from "@berth/protocol/ids"
import { ioError } from "../io/io-error.ts"
import { type Context, type Discarding, STORE } from "../store/context.ts"
import { everyLayer, everyTop } from "../store/inventory.ts"
import { findReferences } from "./references.ts"

export interface Collected {
  readonly layers: readonly LayerId[]
  readonly tops: readonly TopId[]
}

/**
 * Removes the layers and tops that nothing refers to: first all are renamed into the trash, then deleted, so that a
 * crash leaves each of them whole or in the trash. Does nothing if any record cannot be read.
 */
export const collect = async (
  context: Context,
  { signal, wait = true }: Discarding = {},
): Promise<Collected> => {
  const { layout } = context
  const collected = await context.serially(STORE, async () => {
    const kept = await findReferences(context)
    const layers = (await everyLayer(context)).filter((id) => !kept.layers.has(id))
    const tops = (await everyTop(context)).filter((id) => !kept.tops.has(id))
    for (const id of tops) {
      await throwAway(context, layout.top(id).directory, id)
      context.unseen.delete(id)
    }
    for (const id of layers) await throwAway(context, layout.layer(id).directory, id)
    if (layers.length + tops.length > 0) await syncDirectory(layout.trash)
    return { layers, tops }
  })
  if (wait) await context.trash.emptied(signal)
  else context.trash.empty()
  return collected
}

const throwAway = async ({ layout, at }: Context, directory: string, id: string): Promise<void> => {
  try {
    await rename(directory, join(layout.trash, id))
  } catch (thrown) {
    throw ioError(thrown, directory)
  }
  await at("collect.trashed")
}
