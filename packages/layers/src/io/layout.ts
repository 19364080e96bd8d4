import { join } from "node:path"
import type { LayerId, PinId, Slug, TopId } from "@berth/protocol/ids"
import { LayerId as LayerIdSchema } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"

/**
 * The paths of a store, under one root on one file system:
 *
 * ```
 * store.json                       flavour and id range of this store
 * layers/ly-…/{layer.json,tree/}   frozen, with flat.json if it was flattened
 * tops/tp-…/{top.json,tree/,work/} writable, with claim.json while a sandbox has it
 * stacks/<workspace>/<name>.json   the highest layer and the top
 * ownerless/<workspace>            since when no workspace is known for its stacks
 * pins/pin-….json                  what else keeps a layer
 * incoming/                        trees in the making: they count for nothing until they are renamed
 * trash/                           trees on their way out
 * empty/                           the lowest directory of a stack that has no layers
 * ```
 *
 * All names are validated ids and slugs, so no mount option ever needs escaping.
 */
export interface Layout {
  readonly root: string
  readonly store: string
  readonly layers: string
  readonly tops: string
  readonly stacks: string
  readonly ownerless: string
  readonly pins: string
  readonly incoming: string
  readonly trash: string
  readonly empty: string
  layer(id: LayerId): LayerPaths
  top(id: TopId): TopPaths
  /** The paths of a layer in the making. */
  draft(id: LayerId): TreePaths
  stack(key: StackKey): string
  /** A file that exists while no owner is known of a workspace's stacks, and is as old as that. */
  ownerlessNote(workspace: Slug): string
  pin(id: PinId): string
}

export interface TreePaths {
  readonly directory: string
  readonly record: string
  readonly tree: string
}

export interface LayerPaths extends TreePaths {
  /** The layer that shows the same as this one with all below it, if it was flattened. */
  readonly flat: string
}

export interface TopPaths extends TreePaths {
  readonly work: string
  readonly claim: string
  /** The layer's record, written before the top becomes a layer. */
  readonly layerRecord: string
}

const LAYER_RECORD = "layer.json"
export const TOP_RECORD = "top.json"
export const FLAT_RECORD = "flat.json"
export const WORK = "work"
/** The directory with the files of a layer or a top. */
export const TREE = "tree"
/** The file that names the sandbox which a snapshot in the making froze. */
export const SNAPSHOT_RECORD = "snapshot.json"

export const layoutAt = (root: string): Layout => {
  const layers = join(root, "layers")
  const tops = join(root, "tops")
  const stacks = join(root, "stacks")
  const ownerless = join(root, "ownerless")
  const pins = join(root, "pins")
  const incoming = join(root, "incoming")
  return {
    root,
    store: join(root, "store.json"),
    layers,
    tops,
    stacks,
    ownerless,
    pins,
    incoming,
    trash: join(root, "trash"),
    empty: join(root, "empty"),
    layer: (id) => {
      const paths = treePaths(join(layers, id), LAYER_RECORD)
      return { ...paths, flat: join(paths.directory, FLAT_RECORD) }
    },
    top: (id) => {
      const paths = treePaths(join(tops, id), TOP_RECORD)
      return {
        ...paths,
        work: join(paths.directory, WORK),
        claim: join(paths.directory, "claim.json"),
        layerRecord: join(paths.directory, LAYER_RECORD),
      }
    },
    draft: (id) => treePaths(join(incoming, id), LAYER_RECORD),
    stack: ({ workspace, name }) => join(stacks, workspace, `${name}.json`),
    ownerlessNote: (workspace) => join(ownerless, workspace),
    pin: (id) => join(pins, `${id}.json`),
  }
}

const treePaths = (directory: string, record: string): TreePaths => ({
  directory,
  record: join(directory, record),
  tree: join(directory, TREE),
})

/** The id that a top has as a layer: the same letters, so that the fate of a top needs no record. */
export const layerOfTop = (top: TopId): LayerId => LayerIdSchema.parse(top.replace(/^tp-/, "ly-"))
