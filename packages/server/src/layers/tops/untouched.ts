import { lstat, readdir } from "node:fs/promises"
import type { LayerId, TopId } from "@berth/protocol/ids"
import type { Context } from "../context.ts"

/** Whether nothing was changed in a top: freezing it would only make the stack deeper. */
export const isUntouched = async (
  { layout }: Context,
  top: TopId,
  layer: LayerId,
): Promise<boolean> => {
  const { tree } = layout.top(top)
  if ((await readdir(tree)).length > 0) return false
  const [above, below] = await Promise.all([lstat(tree), lstat(layout.layer(layer).tree)])
  return above.mode === below.mode && above.uid === below.uid && above.gid === below.gid
}
