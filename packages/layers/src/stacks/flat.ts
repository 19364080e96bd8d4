import type { LayerId } from "@berth/protocol/ids"
import { readRecord, writeRecord } from "../records/files.ts"
import { FlatRecord, type TopRecord } from "../records/schemas.ts"
import { type Context, STORE } from "../store/context.ts"
import { findLayer } from "./layer.ts"
import { readTop, type Stack } from "./read.ts"
import { writeStack } from "./write.ts"

/** The single layer that shows the same as this one with all that it stands on, if one was made. */
export const findFlat = async (
  context: Context,
  layer: LayerId | null | undefined,
): Promise<LayerId | undefined> => {
  if (!layer) return undefined
  const flat = (await readRecord(context.layout.layer(layer).flat, FlatRecord))?.layer
  return flat !== undefined && (await findLayer(context, flat)) ? flat : undefined
}

/** Records the single layer that shows the same as this one with all that it stands on. */
export const writeFlat = ({ layout }: Context, layer: LayerId, flat: LayerId): Promise<void> => {
  const record: FlatRecord = { version: 1, layer: flat }
  return writeRecord(layout.layer(layer).flat, record)
}

/** The layers for a new layer or top to stand on: in place of the given ones, their single layer, if there is one. */
export const flatParents = async (
  context: Context,
  parents: readonly LayerId[],
): Promise<readonly LayerId[]> => {
  const flat = await findFlat(context, parents.at(-1))
  return flat === undefined ? parents : [flat]
}

/**
 * Puts a stack on the single layer that shows the same as its layers, if there is one. Its top, which nobody may have
 * mounted or claimed, moves along: an overlay notes names of its lower layers in a top, and those are the same. The
 * top's record goes first; a stack that a crash leaves behind it is repaired by the next call, or by verify.
 */
export const rebaseOnFlat = async (context: Context, stack: Stack): Promise<Stack> => {
  const flat = await findFlat(context, stack.layer)
  if (flat === undefined) return stack
  if (stack.top !== null) {
    const record: TopRecord = { ...(await readTop(context, stack.top)), parents: [flat] }
    await writeRecord(context.layout.top(stack.top).record, record)
    await context.at("flatten.rebased")
  }
  const moved = { ...stack, layer: flat }
  await context.serially(STORE, () => writeStack(context, moved))
  await context.at("flatten.stacked")
  return moved
}
