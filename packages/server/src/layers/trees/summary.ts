import { createHash } from "node:crypto"
import { lstat } from "node:fs/promises"
import type { TreeSize } from "@berth/protocol/layer"
import { overlayMarks } from "./overlay-marks.ts"
import { type TreeEntry, walkTree } from "./walk.ts"

export interface TreeSummary {
  readonly size: TreeSize
  readonly digest: string
}

/**
 * What a tree is, as one digest: every path with its kind, mode, owner, size, time of change and link, and
 * the overlay's marks on directories. Whatever writes into a frozen tree changes it, and so does a copy of
 * the store that loses attributes. It does not read contents: that would make a freeze cost what a copy
 * costs, and no sandbox can reach a frozen tree to forge a time.
 */
export const summarizeTree = async (
  tree: string,
  idBase: number,
  signal?: AbortSignal,
): Promise<TreeSummary> => {
  const lines: string[] = []
  const directories: string[] = []
  const size = sizeCounter()
  for await (const entry of walkTree(tree, signal)) {
    size.add(entry)
    lines.push(line(entry, idBase))
    if (entry.kind === "d") directories.push(entry.path)
  }
  for await (const { path, marks } of overlayMarks(tree, directories, signal)) {
    lines.push(`${path}\0${marks}`)
  }
  const hash = createHash("sha256")
  // A tree is walked in the order of its directories on disk, which is not part of what it is.
  for (const text of lines.sort()) hash.update(`${text}\0\0`, "latin1")
  return { size: size.total(), digest: hash.digest("hex") }
}

/** How much disk a tree takes; nothing if it goes away meanwhile, as a top does that is frozen. */
export const measureTree = async (tree: string, signal?: AbortSignal): Promise<TreeSize> => {
  const size = sizeCounter()
  try {
    for await (const entry of walkTree(tree, signal)) size.add(entry)
  } catch (thrown) {
    if (await lstat(tree).catch(() => undefined)) throw thrown
    return { bytes: 0, files: 0 }
  }
  return size.total()
}

/** A directory's size, unlike a file's, is an accident of the file system. */
const line = ({ path, kind, mode, uid, gid, size, changed, link }: TreeEntry, idBase: number) =>
  [path, kind, mode, uid - idBase, gid - idBase, kind === "d" ? 0 : size, changed, link].join("\0")

/** Counts as the disk does: several names of one file take its space once, holes take none. */
const sizeCounter = () => {
  const linked = new Set<string>()
  let bytes = 0
  let files = 0
  return {
    add: ({ path, kind, links, inode, diskBytes }: TreeEntry): void => {
      if (path !== "") files += 1
      if (kind !== "d" && links > 1) {
        if (linked.has(inode)) return
        linked.add(inode)
      }
      bytes += diskBytes
    },
    total: (): TreeSize => ({ bytes, files }),
  }
}
