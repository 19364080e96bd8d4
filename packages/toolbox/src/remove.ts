import { chmod } from "node:fs/promises"
import { join } from "node:path"
import { removeTree } from "@berth/host/remove-tree"
import { walk } from "./walk.ts"

/** Deletes a toolbox, whose directories nobody may write in. Does nothing if it is gone already. */
export const removeToolbox = async (tree: string): Promise<void> => {
  if (process.geteuid?.() !== 0) await openDirectories(tree)
  await removeTree(tree)
}

const openDirectories = async (tree: string): Promise<void> => {
  try {
    await chmod(tree, 0o700)
    for (const { path, stats } of await walk(tree, new AbortController().signal)) {
      if (stats.isDirectory()) await chmod(join(tree, path), 0o700)
    }
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown
  }
}
