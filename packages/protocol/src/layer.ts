import { z } from "zod"
import { LayerId, PinId, SandboxId, Slug, TopId } from "./ids.ts"

/**
 * The attributes in which an overlay marks deleted and moved files: `trusted.*`, which only root of the host writes, or
 * `user.*`. A layer means something else when it is mounted the other way.
 */
export const LayerFlavour = z.enum(["trusted", "user"])
export type LayerFlavour = z.infer<typeof LayerFlavour>

/** The operation that made a layer. */
export const LayerOrigin = z.enum(["freeze", "snapshot", "flatten", "import"])
export type LayerOrigin = z.infer<typeof LayerOrigin>

/** The name of a stack: `{ workspace: "shop", name: "home" }`. */
export const StackKey = z.strictObject({ workspace: Slug, name: Slug })
export type StackKey = z.infer<typeof StackKey>

export const TreeSize = z.strictObject({
  /** Disk space, with hard links and holes counted as the disk does. */
  bytes: z.int().nonnegative(),
  files: z.int().nonnegative(),
})
export type TreeSize = z.infer<typeof TreeSize>

export const ListedLayer = TreeSize.extend({
  id: LayerId,
  origin: LayerOrigin,
  createdAt: z.iso.datetime(),
  /** The layers below, lowest first. */
  parents: z.array(LayerId),
  /** Everything that keeps the layer: stacks as `workspace/name`, pins as `pin-…`, tops as `tp-…`. */
  heldBy: z.array(z.string()),
})
export type ListedLayer = z.infer<typeof ListedLayer>

export const ListedTop = TreeSize.extend({
  id: TopId,
  createdAt: z.iso.datetime(),
  claimedBy: SandboxId.nullable(),
})
export type ListedTop = z.infer<typeof ListedTop>

export const ListedStack = StackKey.extend({
  /** The layers, lowest first. */
  layers: z.array(LayerId),
  top: ListedTop.nullable(),
  /** The bytes of the layers and the top. */
  bytes: z.int().nonnegative(),
  flattenAdvised: z.boolean(),
})
export type ListedStack = z.infer<typeof ListedStack>

export const ListedPin = z.strictObject({
  id: PinId,
  layer: LayerId,
  reason: z.string(),
  createdAt: z.iso.datetime(),
})
export type ListedPin = z.infer<typeof ListedPin>

/** The output of `berth layers ls`. */
export const LayersListing = z.strictObject({
  stacks: z.array(ListedStack),
  layers: z.array(ListedLayer),
  pins: z.array(ListedPin),
  /** Workspaces that have stacks and that the database does not know. */
  ownerless: z.array(Slug),
  /** The number of trees that are in the trash and not yet deleted. */
  trash: z.int().nonnegative(),
  /** The bytes of all layers and tops, each counted once. */
  bytes: z.int().nonnegative(),
})
export type LayersListing = z.infer<typeof LayersListing>

/** A repair that verify made of something that a crash left. */
export const LayersRepair = z.strictObject({
  kind: z.enum([
    "finished_freeze",
    "finished_flatten",
    "removed_partial",
    "removed_leftover",
    "removed_unused",
    "released_claim",
    "forgot_top",
  ]),
  /** The id, or the path within the store. */
  subject: z.string(),
  said: z.string(),
})
export type LayersRepair = z.infer<typeof LayersRepair>

/** A problem that verify found and left alone. */
export const LayersProblem = z.strictObject({
  kind: z.enum([
    "layer_changed",
    "layer_missing",
    "layer_foreign",
    "chain_broken",
    "record_unreadable",
    "tree_missing",
  ]),
  subject: z.string(),
  said: z.string(),
  /** The stacks, as `workspace/name`, that cannot be trusted because of the problem. */
  stacks: z.array(z.string()),
})
export type LayersProblem = z.infer<typeof LayersProblem>

/** The output of `berth layers verify`. */
export const LayersReport = z.strictObject({
  repairs: z.array(LayersRepair),
  problems: z.array(LayersProblem),
  /** Sandboxes that may still be frozen: a crash came in the middle of their snapshot. */
  perhapsFrozen: z.array(SandboxId),
  checked: z.strictObject({
    stacks: z.int(),
    layers: z.int(),
    tops: z.int(),
    pins: z.int(),
  }),
})
export type LayersReport = z.infer<typeof LayersReport>
