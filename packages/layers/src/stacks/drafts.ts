import { mkdir, rename } from "node:fs/promises"
import { syncDirectory } from "@berth/host/sync-directory"
import type { LayerId } from "@berth/protocol/ids"
import type { LayerOrigin, TreeSize } from "@berth/protocol/layer"
import { ioError } from "../io/io-error.ts"
import type { TreePaths } from "../io/layout.ts"
import { writePassingRecord } from "../records/files.ts"
import type { LayerRecord } from "../records/schemas.ts"
import type { Context } from "../store/context.ts"
import { discardTree } from "../trees/discard.ts"
import { flushTree } from "../trees/flush.ts"
import { summarizeTree } from "../trees/summary.ts"
import { throwAway } from "../trees/throw-away.ts"

/**
 * Makes a layer aside. If the work fails, nothing of it is left. If it is cancelled, the caller does not wait for the
 * deletion.
 */
export const inDraft = async <Result>(
  { layout, underWay, trash }: Context,
  id: LayerId,
  work: (draft: TreePaths) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> => {
  const draft = layout.draft(id)
  underWay.add(id)
  try {
    await mkdir(draft.directory, { mode: 0o700 })
    return await work(draft)
  } catch (thrown) {
    if (signal?.aborted) {
      await throwAway(layout, draft.directory)
      trash.empty()
    } else await discardTree(draft.directory)
    throw ioError(thrown, draft.directory)
  } finally {
    underWay.delete(id)
  }
}

/** Makes layers aside, one draft within another: a failure in one leaves none of them. */
export const inDrafts = <Made extends { readonly id: LayerId }, Result>(
  context: Context,
  all: readonly Made[],
  work: (drafted: readonly (Made & Drafted)[]) => Promise<Result>,
  signal?: AbortSignal,
  begun: readonly (Made & Drafted)[] = [],
): Promise<Result> => {
  const [made, ...others] = all
  if (made === undefined) return work(begun)
  const prepare = (draft: TreePaths) =>
    inDrafts(context, others, work, signal, [...begun, { ...made, draft }])
  return inDraft(context, made.id, prepare, signal)
}

interface Drafted {
  readonly draft: TreePaths
}

export interface Description {
  readonly id: LayerId
  readonly parents: readonly LayerId[]
  readonly origin: LayerOrigin
}

/** Writes a layer's record beside its tree, and both to the disk: a directory with a layer's name is never lost. */
export const writeLayer = async (
  context: Context,
  { id, parents, origin }: Description,
  { tree, record }: Pick<TreePaths, "tree" | "record">,
  signal?: AbortSignal,
): Promise<TreeSize> => {
  const { flavour, idBase } = context
  const { size, digest } = await summarizeTree(context, tree, { signal })
  const described: LayerRecord = {
    version: 1,
    id,
    flavour,
    idBase,
    parents: [...parents],
    origin,
    createdAt: new Date().toISOString(),
    size,
    summary: digest,
  }
  // Not synced by itself: the flush of the whole file system that follows includes it.
  await writePassingRecord(record, described)
  await flushTree(tree, signal)
  return size
}

/** Makes a tree a layer: one rename, made durable. */
export const install = async (
  { layout }: Context,
  directory: string,
  id: LayerId,
): Promise<void> => {
  try {
    await rename(directory, layout.layer(id).directory)
    await syncDirectory(layout.layers)
  } catch (thrown) {
    throw ioError(thrown, directory)
  }
}
