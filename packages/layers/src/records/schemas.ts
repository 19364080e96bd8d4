import { LayerId, PinId, SandboxId, TopId } from "@berth/protocol/ids"
import { LayerFlavour, LayerOrigin, StackKey, TreeSize } from "@berth/protocol/layer"
import { z } from "zod"

const version = z.literal(1)
const IdBase = z.int().nonnegative()

/** The properties that all trees of one store share. */
export const StoreRecord = z.strictObject({ version, flavour: LayerFlavour, idBase: IdBase })
export type StoreRecord = z.infer<typeof StoreRecord>

export const LayerRecord = z.strictObject({
  version,
  id: LayerId,
  flavour: LayerFlavour,
  idBase: IdBase,
  /** The whole stack that the layer was made on, lowest first: it is never mounted on another. */
  parents: z.array(LayerId),
  origin: LayerOrigin,
  createdAt: z.iso.datetime(),
  size: TreeSize,
  /** The digest of the tree as it was frozen, see `trees/summary.ts`. */
  summary: z.string().regex(/^(?:2:)?[0-9a-f]{64}$/),
})
export type LayerRecord = z.infer<typeof LayerRecord>

/**
 * The record beside a layer that was flattened: names the layer that shows the same as it and all that it stands on.
 */
export const FlatRecord = z.strictObject({ version, layer: LayerId })
export type FlatRecord = z.infer<typeof FlatRecord>

export const TopRecord = z.strictObject({
  version,
  id: TopId,
  flavour: LayerFlavour,
  idBase: IdBase,
  parents: z.array(LayerId),
  createdAt: z.iso.datetime(),
})
export type TopRecord = z.infer<typeof TopRecord>

export const StackRecord = StackKey.extend({
  version,
  /** The highest frozen layer; the layers below are its parents. */
  layer: LayerId.nullable(),
  top: TopId.nullable(),
})
export type StackRecord = z.infer<typeof StackRecord>

export const PinRecord = z.strictObject({
  version,
  id: PinId,
  layer: LayerId,
  reason: z.string().max(500),
  /** Whether the pin ends with the process that made it. */
  passing: z.boolean().default(false),
  createdAt: z.iso.datetime(),
})
export type PinRecord = z.infer<typeof PinRecord>

export const ClaimRecord = z.strictObject({
  version,
  sandbox: SandboxId,
  /** The boot of the kernel under which the claim was made: no mount outlives a reboot. */
  bootId: z.string(),
  claimedAt: z.iso.datetime(),
})
export type ClaimRecord = z.infer<typeof ClaimRecord>

export const SnapshotRecord = z.strictObject({ version, top: TopId, sandbox: SandboxId })
export type SnapshotRecord = z.infer<typeof SnapshotRecord>
