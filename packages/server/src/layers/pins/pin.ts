import { BerthError } from "@berth/protocol/errors"
import { type LayerId, newId, type PinId } from "@berth/protocol/ids"
import { readRecord, removeRecord, writeRecord } from "../records/files.ts"
import { PinRecord } from "../records/schemas.ts"
import { readLayer } from "../stacks/layer.ts"
import { type Context, STORE } from "../store/context.ts"

export interface Pinned {
  readonly layer: LayerId
  /** The pin, which keeps the layer until it is removed. */
  readonly pin: PinId
}

/** Keeps a layer, and those that it stands on, until it is unpinned. */
export const pinLayer = (context: Context, layer: LayerId, reason: string): Promise<PinId> =>
  context.serially(STORE, async () => {
    await readLayer(context, layer)
    return writePin(context, layer, reason)
  })

/** Ends a pin. Idempotent. */
export const unpin = (context: Context, pin: PinId): Promise<void> =>
  context.serially(STORE, async () => {
    await removeRecord(context.layout.pin(pin))
    context.passing.delete(pin)
  })

interface PinOptions {
  /** Whether the pin ends with this process, unless it is ended before. By default it stays until it is ended. */
  readonly passing?: boolean
}

/** Writes a pin for a layer that was made in the same turn of STORE. */
export const writePin = async (
  context: Context,
  layer: LayerId,
  reason: string,
  { passing = false }: PinOptions = {},
): Promise<PinId> => {
  const id = newId.pin()
  const createdAt = new Date().toISOString()
  const record: PinRecord = { version: 1, id, layer, reason, passing, createdAt }
  if (passing) context.passing.add(id)
  await writeRecord(context.layout.pin(id), record)
  return id
}

export const readPin = async ({ layout }: Context, id: PinId): Promise<PinRecord> => {
  const record = await readRecord(layout.pin(id), PinRecord)
  if (record !== undefined) return record
  throw new BerthError("layers.unknown", `there is no pin ${id}`, { details: { pin: id } })
}
