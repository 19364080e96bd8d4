import { lstat, opendir } from "node:fs/promises"
import type { LayerId, TopId } from "@berth/protocol/ids"
import type { Context } from "../store/context.ts"

/** Whether a top has no changes: freezing it would only make the stack deeper. */
export const isUntouched = async (
  { layout }: Context,
  top: TopId,
  layer: LayerId,
): Promise<boolean> => {
  const { tree } = layout.top(top)
  if (!(await isEmpty(tree))) return false
  const [above, below] = await Promise.all([lstat(tree), lstat(layout.layer(layer).tree)])
  return above.mode === below.mode && above.uid === below.uid && above.gid === below.gid
}

/** Reads only one name: a sandbox may have put a million there. */
const isEmpty = async (directory: string): Promise<boolean> => {
  for await (const _ of await opendir(directory)) return false
  return true
}
