import { BerthError } from "@berth/protocol/errors"
import { type LayerId, newId, type PinId } from "@berth/protocol/ids"
import { readRecord, removeRecord, writeRecord } from "../records/files.ts"
import { PinRecord } from "../records/schemas.ts"
import { type Context, STORE } from "../store/context.ts"

export interface Pinned {
  readonly layer: LayerId
  /** The pin, which keeps the layer until it is removed. */
  readonly pin: PinId
}

/** Ends a pin. Idempotent. */
export const unpin = (context: Context, pin: PinId): Promise<void> =>
  context.serially(STORE, async () => {
    await removeRecord(context.layout.pin(pin))
    context.passing.delete(pin)
  })

/**
 * Writes a pin for a layer that was made in the same turn of STORE. It keeps the layer, and those that it stands on, and
 * ends with this process unless it is ended before.
 */
export const writePin = async (
  context: Context,
  layer: LayerId,
  reason: string,
): Promise<PinId> => {
  const id = newId.pin()
  const createdAt = new Date().toISOString()
  const record: PinRecord = { version: 1, id, layer, reason, passing: true, createdAt }
  context.passing.add(id)
  await writeRecord(context.layout.pin(id), record)
  return id
}

export const readPin = async ({ layout }: Context, id: PinId): Promise<PinRecord> => {
  const record = await readRecord(layout.pin(id), PinRecord)
  if (record !== undefined) return record
  throw new BerthError("layers.unknown", `there is no pin ${id}`, { details: { pin: id } })
}
