import { hash } from "node:crypto"
import { lstat } from "node:fs/promises"
import type { TreeSize } from "@berth/protocol/layer"
import { ioError } from "../io/io-error.ts"
import { overlayMarks } from "./overlay-marks.ts"
import type { Walk, WalkTree } from "./walk.ts"

export interface TreeSummary {
  readonly size: TreeSize
  readonly digest: string
}

interface Store {
  readonly walk: WalkTree
  readonly idBase: number
}

/** The prefix of a digest of today's form. A digest without it was made of sorted paths, by older versions. */
const FORM = "2:"

/** Whether a digest can be compared with one of today's form. */
export const isComparable = (digest: string): boolean => digest.startsWith(FORM)

/**
 * A digest of a tree: every path with its kind, mode, owner, size, time of change and link, and the overlay's marks on
 * directories. Any write into a frozen tree changes it, and so does a copy of the store that loses attributes. Contents
 * are not read: that would make a freeze cost as much as a copy, and no sandbox can reach a frozen tree to forge a
 * time. Marks below the longest path that the kernel takes are left out: no program can be asked for them.
 */
export const summarizeTree = async (
  store: Store,
  tree: string,
  { signal, deadlineMs }: Pick<Walk, "signal" | "deadlineMs"> = {},
): Promise<TreeSummary> => {
  const marks = overlayMarks(tree, signal)
  try {
    const { files, bytes, moved, digest } = await store.walk(tree, store.idBase, {
      take: marks.add,
      signal,
      ...(deadlineMs !== undefined && { deadlineMs }),
    })
    if (moved) throw new Error("a directory was moved while the tree was walked")
    const whole = hash("sha256", `${digest} ${await marks.digest()}`, "hex")
    return { size: { bytes, files }, digest: `${FORM}${whole}` }
  } catch (thrown) {
    signal?.throwIfAborted()
    throw ioError(thrown, tree)
  } finally {
    marks.stop()
  }
}

/**
 * The disk space that a tree takes; zero if the tree goes away meanwhile, as a top does that is frozen. If a running
 * sandbox moves directories about in it, only what was seen counts.
 */
export const measureTree = async (
  store: Store,
  tree: string,
  signal?: AbortSignal,
): Promise<TreeSize> => {
  try {
    const { files, bytes } = await store.walk(tree, store.idBase, { signal })
    return { bytes, files }
  } catch (thrown) {
    signal?.throwIfAborted()
    if (await lstat(tree).catch(() => undefined)) throw ioError(thrown, tree)
    return { bytes: 0, files: 0 }
  }
}
