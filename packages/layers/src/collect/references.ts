import type { LayerId, TopId } from "@berth/protocol/ids"
import { readClaim } from "../claims/read-claim.ts"
import { readPin } from "../pins/pin.ts"
import { findFlat } from "../stacks/flat.ts"
import { findLayer } from "../stacks/layer.ts"
import { findTop, readStack, stackName } from "../stacks/read.ts"
import type { Context } from "../store/context.ts"
import { inTurns } from "../store/in-turns.ts"
import { everyPin, everyStack, everyTop } from "../store/inventory.ts"

/** The holders of each layer and top, by name. */
export interface References {
  readonly layers: ReadonlyMap<LayerId, readonly string[]>
  readonly tops: ReadonlyMap<TopId, readonly string[]>
}

/**
 * Finds everything that is kept, and by whom. Computed from the records each time, so that no count can drift. Throws
 * if a record cannot be read, since what it keeps is unknown then.
 */
export const findReferences = async (context: Context): Promise<References> => {
  const layers = new Map<LayerId, string[]>()
  const tops = new Map<TopId, string[]>()
  const keep = <Id>(map: Map<Id, string[]>, id: Id, holder: string) =>
    map.set(id, [...(map.get(id) ?? []), holder])
  const keepStack = async (layer: LayerId | null, holder: string) => {
    if (layer === null) return
    const record = await findLayer(context, layer)
    for (const id of [...(record?.parents ?? []), layer]) keep(layers, id, holder)
    await keepFlat(layer)
  }
  /** Keeps the flat layer of this one: the next top of its stack is put on it. */
  const keepFlat = async (layer: LayerId | undefined) => {
    const flat = await findFlat(context, layer)
    if (layer !== undefined && flat !== undefined) keep(layers, flat, layer)
  }
  const keepTop = async (top: TopId, holder: string) => {
    keep(tops, top, holder)
    const parents = (await findTop(context, top))?.parents ?? []
    for (const id of parents) keep(layers, id, top)
    await keepFlat(parents.at(-1))
  }

  for await (const key of inTurns(await everyStack(context))) {
    const { layer, top } = await readStack(context, key)
    await keepStack(layer, stackName(key))
    if (top !== null) await keepTop(top, stackName(key))
  }
  for (const id of await everyPin(context)) await keepStack((await readPin(context, id)).layer, id)
  for await (const id of inTurns(await everyTop(context))) {
    const claim = await readClaim(context, id)
    if (claim) await keepTop(id, claim.sandbox)
  }
  for (const held of context.reading.values()) for (const id of held) keep(layers, id, "reading")
  return { layers, tops }
}
