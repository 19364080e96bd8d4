import { BerthError } from "@berth/protocol/errors"
import type { LayerId, TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { layerOfTop } from "../io/layout.ts"
import { readRecord } from "../records/files.ts"
import { StackRecord, TopRecord } from "../records/schemas.ts"
import type { Context } from "../store/context.ts"
import { assertFits, findLayer } from "./layer.ts"

export interface Stack {
  readonly key: StackKey
  /** The highest frozen layer. */
  readonly layer: LayerId | null
  readonly top: TopId | null
}

/** The name of a stack in messages and in listings. */
export const stackName = ({ workspace, name }: StackKey): string => `${workspace}/${name}`

export const readStack = async (context: Context, key: StackKey): Promise<Stack> => {
  const stack = await findStack(context, key)
  if (stack !== undefined) return stack
  throw new BerthError("layers.unknown", `there is no stack ${stackName(key)}`, {
    details: { ...key },
  })
}

/**
 * Reads a stack by its trees. A freeze renames the top into a layer of the same letters first and writes the stack
 * after, so a stack whose top is such a layer already is read as frozen.
 */
export const findStack = async (context: Context, key: StackKey): Promise<Stack | undefined> => {
  const record = await readRecord(context.layout.stack(key), StackRecord)
  if (record === undefined) return undefined
  const { layer, top } = record
  if (top === null || (await findTop(context, top))) return { key, layer, top }
  const frozen = layerOfTop(top)
  if (await findLayer(context, frozen)) return { key, layer: frozen, top: null }
  throw new BerthError("layers.damaged", `the top of ${stackName(key)} is gone`, {
    details: { ...key, top },
  })
}

export const readTop = async (context: Context, id: TopId): Promise<TopRecord> => {
  const record = await findTop(context, id)
  if (record !== undefined) return record
  throw new BerthError("layers.unknown", `there is no top ${id}`, { details: { top: id } })
}

export const findTop = async (context: Context, id: TopId): Promise<TopRecord | undefined> => {
  const record = await readRecord(context.layout.top(id).record, TopRecord)
  if (record !== undefined) assertFits(record, context, id)
  return record
}
