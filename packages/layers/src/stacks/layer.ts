import { BerthError } from "@berth/protocol/errors"
import type { LayerId } from "@berth/protocol/ids"
import type { LayerFlavour } from "@berth/protocol/layer"
import { readRecord } from "../records/files.ts"
import { LayerRecord } from "../records/schemas.ts"
import type { Context } from "../store/context.ts"

/** Reads a layer's record. Refuses a layer of another flavour or another range of ids. */
export const readLayer = async (context: Context, id: LayerId): Promise<LayerRecord> => {
  const record = await findLayer(context, id)
  if (record === undefined) {
    throw new BerthError("layers.unknown", `there is no layer ${id}`, { details: { layer: id } })
  }
  return record
}

export const findLayer = async (
  context: Context,
  id: LayerId,
): Promise<LayerRecord | undefined> => {
  const record = await readRecord(context.layout.layer(id).record, LayerRecord)
  if (record !== undefined) assertFits(record, context, id)
  return record
}

/** The whole stack that a layer is the highest of, lowest first. */
export const stackBelow = async (
  context: Context,
  layer: LayerId | null,
): Promise<readonly LayerId[]> => {
  if (layer === null) return []
  const { parents } = await readLayer(context, layer)
  return [...parents, layer]
}

interface Kind {
  readonly flavour: LayerFlavour
  readonly idBase: number
}

export const assertFits = (found: Kind, wanted: Kind, subject: string): void => {
  if (found.flavour !== wanted.flavour) {
    throw new BerthError(
      "layers.wrong_flavour",
      `${subject} is of the flavour ${found.flavour}, this store of ${wanted.flavour}`,
      { details: { subject, found: found.flavour, wanted: wanted.flavour } },
    )
  }
  if (found.idBase !== wanted.idBase) {
    throw new BerthError(
      "layers.wrong_ids",
      `${subject} belongs to the ids from ${found.idBase} on, this store to those from ${wanted.idBase} on`,
      { details: { subject, found: found.idBase, wanted: wanted.idBase } },
    )
  }
}
