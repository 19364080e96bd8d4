import { join } from "node:path"
import type { LayerId } from "@berth/protocol/ids"
import { TOP_RECORD, WORK } from "../io/layout.ts"
import { removePassingRecord } from "../records/files.ts"
import type { Context } from "../store/context.ts"
import { discardTree } from "../trees/discard.ts"

/** Removes what a layer has left of its time as a top. Nothing reads it any more. */
export const removeTopRemains = async ({ layout }: Context, id: LayerId): Promise<void> => {
  const { directory } = layout.layer(id)
  await discardTree(join(directory, WORK))
  await removePassingRecord(join(directory, TOP_RECORD))
}
