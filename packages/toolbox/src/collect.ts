import { rename, rm } from "node:fs/promises"
import { join } from "node:path"
import type { ToolboxId } from "@berth/protocol/toolbox"
import type { Context } from "./context.ts"
import { namesIn, parseName } from "./layout.ts"
import { ownName } from "./owner.ts"
import { removeToolbox } from "./remove.ts"
import { sealed } from "./seal.ts"
import { sweep } from "./sweep.ts"

/**
 * Removes every toolbox that nobody uses, and returns their ids. The current one counts as in use: the caller names it
 * as well.
 */
export const collect = async (
  { layout, at }: Context,
  inUse: ReadonlySet<ToolboxId>,
): Promise<ToolboxId[]> => {
  const removed: ToolboxId[] = []
  for (const name of await namesIn(layout.root)) {
    const found = parseName(name)
    if (found === undefined || found.kind === "passing" || inUse.has(found.id)) continue
    // Renamed first: a toolbox under its own name is always whole, also during its removal.
    const outgoing = layout.outgoing(ownName())
    if (!(await renamed(join(layout.root, name), outgoing))) continue
    await at("renamed")
    await removeToolbox(outgoing)
    await at("removed")
    if (found.kind === "toolbox") removed.push(found.id)
  }
  for (const id of await sealed(layout)) {
    if (!inUse.has(id)) await rm(layout.seal(id), { force: true })
  }
  await sweep(layout)
  return removed
}

/** Renames a directory. Returns false if another process was faster. */
const renamed = async (from: string, to: string): Promise<boolean> => {
  try {
    await rename(from, to)
    return true
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return false
    throw thrown
  }
}
