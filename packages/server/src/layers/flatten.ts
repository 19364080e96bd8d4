import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { type LayerId, newId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { type Call, type Context, STORE } from "./context.ts"
import { describe, inDraft, install } from "./drafts.ts"
import { freeze } from "./freeze.ts"
import { whileReading } from "./reading.ts"
import { readStack, stackName } from "./stacks/read.ts"
import { writeStack } from "./stacks/write.ts"
import { discardTree } from "./trees/discard.ts"
import { copyMerged } from "./trees/merged.ts"

export interface Flattened {
  readonly layer: LayerId
  readonly made: boolean
}

/**
 * Makes one layer of a whole stack, which shows the same. The kernel itself merges: the stack is mounted
 * read-only and copied. It takes as long as a copy of everything, so nothing waits for it: a sandbox that
 * starts on the stack meanwhile wins, and the work is thrown away. A top that no sandbox has is frozen first.
 */
export const flatten = async (
  context: Context,
  key: StackKey,
  { signal }: Call = {},
): Promise<Flattened> => {
  const { layer: highest } = await freeze(context, key, signal ? { signal } : {})
  return whileReading(context, highest, (layers) =>
    layers.length < 2
      ? Promise.resolve({ layer: highest, made: false })
      : mergeAll(context, key, layers, signal),
  )
}

const mergeAll = (
  context: Context,
  key: StackKey,
  layers: readonly LayerId[],
  signal: AbortSignal | undefined,
): Promise<Flattened> => {
  const { at } = context
  const id = newId.layer()
  return inDraft(context, id, async (draft) => {
    const merged = join(draft.directory, "merged")
    await mkdir(merged)
    await at("flatten.prepared")
    await copyMerged(context, layers, { merged, tree: draft.tree }, signal)
    await discardTree(merged)
    await at("flatten.copied")
    await describe(context, { id, parents: [], origin: "flatten" }, draft, signal)
    await at("flatten.described")
    await context.serially(stackName(key), async () => {
      const { layer, top } = await readStack(context, key)
      if (layer !== layers.at(-1) || top !== null) throw changedMeanwhile(key)
      await context.serially(STORE, async () => {
        await install(context, draft.directory, id)
        await at("flatten.renamed")
        await writeStack(context, { key, layer: id, top: null })
        await at("flatten.stacked")
      })
    })
    return { layer: id, made: true }
  })
}

const changedMeanwhile = (key: StackKey): BerthError =>
  new BerthError("layers.changed_meanwhile", `${stackName(key)} changed while it was flattened`, {
    details: { ...key },
  })
