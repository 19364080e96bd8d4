import { join } from "node:path"
import { type Layout, namesIn, parseName } from "./layout.ts"
import { isAlive } from "./owner.ts"
import { removeToolbox } from "./remove.ts"

/** Deletes the trees that processes left half-made or half-removed when they died. */
export const sweep = async ({ root }: Layout): Promise<void> => {
  for (const name of await namesIn(root)) {
    const found = parseName(name)
    if (found?.kind === "passing" && !isAlive(found.owner)) await removeToolbox(join(root, name))
  }
}
