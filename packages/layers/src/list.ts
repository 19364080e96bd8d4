import type { LayerId, TopId } from "@berth/protocol/ids"
import type {
  LayersListing,
  ListedLayer,
  ListedStack,
  ListedTop,
  TreeSize,
} from "@berth/protocol/layer"
import { readClaim } from "./claims/read-claim.ts"
import { findReferences } from "./collect/references.ts"
import { readPin } from "./pins/pin.ts"
import { FLATTEN_AT_LAYERS } from "./stacks/depth.ts"
import { readLayer, stackBelow } from "./stacks/layer.ts"
import { findOwnerless } from "./stacks/ownerless.ts"
import { readStack, readTop } from "./stacks/read.ts"
import { type Call, type Context, STORE } from "./store/context.ts"
import { everyLayer, everyPin, everyStack, everyTop } from "./store/inventory.ts"
import { measureTree } from "./trees/summary.ts"

/** Lists every stack with its layers, their sizes and their holders. Tops are measured, which walks them. */
export const listLayers = async (
  context: Context,
  { signal }: Call = {},
): Promise<LayersListing> => {
  const { stacks, layers, pins, tops } = await context.serially(STORE, () => readAll(context))
  const sizes = new Map<TopId, TreeSize>()
  for (const top of tops)
    sizes.set(top, await measureTree(context, context.layout.top(top).tree, signal))
  const layerBytes = new Map(layers.map(({ id, bytes }) => [id, bytes]))
  const bytesOf = (ids: readonly LayerId[]) => sum(ids.map((id) => layerBytes.get(id) ?? 0))
  return {
    stacks: stacks.map(({ top, ...stack }): ListedStack => {
      const size = top && sizes.get(top.id)
      return {
        ...stack,
        top: top && size ? { ...top, ...size } : null,
        bytes: bytesOf(stack.layers) + (size?.bytes ?? 0),
        flattenAdvised: stack.layers.length >= FLATTEN_AT_LAYERS,
      }
    }),
    layers,
    pins,
    ownerless: [...(await findOwnerless(context)).noted],
    trash: await context.trash.count(),
    bytes: sum([...layerBytes.values()]) + sum([...sizes.values()].map(({ bytes }) => bytes)),
  }
}

const readAll = async (context: Context) => {
  const references = await findReferences(context)
  const layers: ListedLayer[] = []
  for (const id of await everyLayer(context)) {
    const { origin, createdAt, parents, size } = await readLayer(context, id)
    const heldBy = [...(references.layers.get(id) ?? [])]
    layers.push({ id, origin, createdAt, parents, heldBy, ...size })
  }
  const stacks = []
  for (const key of await everyStack(context)) {
    const { layer, top } = await readStack(context, key)
    const found = top && (await readListedTop(context, top))
    stacks.push({ ...key, layers: [...(await stackBelow(context, layer))], top: found })
  }
  const pins = []
  for (const pin of await everyPin(context)) {
    const { id, layer, reason, createdAt } = await readPin(context, pin)
    pins.push({ id, layer, reason, createdAt })
  }
  return { stacks, layers, pins, tops: await everyTop(context) }
}

const readListedTop = async (
  context: Context,
  top: TopId,
): Promise<Omit<ListedTop, keyof TreeSize>> => {
  const { createdAt } = await readTop(context, top)
  const claim = await readClaim(context, top)
  return { id: top, createdAt, claimedBy: claim?.sandbox ?? null }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
