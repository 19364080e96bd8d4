import { z } from "zod"
import { LayerId, PinId, SandboxId, Slug, TopId } from "./ids.ts"

/**
 * How an overlay marks what was deleted and moved: in `trusted.*` attributes, which only root of the
 * host writes, or in `user.*` ones. A layer means something else when it is mounted the other way.
 */
export const LayerFlavour = z.enum(["trusted", "user"])
export type LayerFlavour = z.infer<typeof LayerFlavour>

/** What made a layer. */
export const LayerOrigin = z.enum(["freeze", "snapshot", "flatten", "import"])
export type LayerOrigin = z.infer<typeof LayerOrigin>

/** Which files of which workspace: `{ workspace: "shop", name: "home" }`. */
export const StackKey = z.strictObject({ workspace: Slug, name: Slug })
export type StackKey = z.infer<typeof StackKey>

export const TreeSize = z.strictObject({
  /** Disk space, hard links and holes counted as the disk does. */
  bytes: z.int().nonnegative(),
  files: z.int().nonnegative(),
})
export type TreeSize = z.infer<typeof TreeSize>

export const ListedLayer = TreeSize.extend({
  id: LayerId,
  origin: LayerOrigin,
  createdAt: z.iso.datetime(),
  /** Lowest first. */
  parents: z.array(LayerId),
  /** Everything that keeps it: stacks as `workspace/name`, pins as `pin-…`, tops as `tp-…`. */
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
  /** Lowest first. */
  layers: z.array(LayerId),
  top: ListedTop.nullable(),
  /** Of the layers and the top. */
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

/** What `berth layers ls` shows. */
export const LayersListing = z.strictObject({
  stacks: z.array(ListedStack),
  layers: z.array(ListedLayer),
  pins: z.array(ListedPin),
  /** Workspaces that have stacks and that the database does not know. */
  ownerless: z.array(Slug),
  /** How many trees are thrown away and not yet deleted. */
  trash: z.int().nonnegative(),
  /** Of all layers and tops, each counted once. */
  bytes: z.int().nonnegative(),
})
export type LayersListing = z.infer<typeof LayersListing>

/** What verify did about something that a crash left. */
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

/** What verify found and left alone. */
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
  /** The stacks, as `workspace/name`, that cannot be trusted because of it. */
  stacks: z.array(z.string()),
})
export type LayersProblem = z.infer<typeof LayersProblem>

/** What `berth layers verify` says. */
export const LayersReport = z.strictObject({
  repairs: z.array(LayersRepair),
  problems: z.array(LayersProblem),
  /** A crash came in the middle of their snapshot: they may still be frozen. */
  perhapsFrozen: z.array(SandboxId),
  checked: z.strictObject({
    stacks: z.int(),
    layers: z.int(),
    tops: z.int(),
    pins: z.int(),
  }),
})
export type LayersReport = z.infer<typeof LayersReport>
