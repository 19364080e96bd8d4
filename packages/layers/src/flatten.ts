import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { type LayerId, newId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { assertFree } from "./claims/free.ts"
import { inDraft, install, writeLayer } from "./stacks/drafts.ts"
import { findFlat, rebaseOnFlat, writeFlat } from "./stacks/flat.ts"
import { readStack, stackName } from "./stacks/read.ts"
import { whileReading } from "./stacks/reading.ts"
import { type Call, type Context, STORE } from "./store/context.ts"
import { copyMerged } from "./tops/merged.ts"
import { discardTree } from "./trees/discard.ts"

export interface Flattened {
  /** The single layer; null if the stack has no frozen ones. */
  readonly layer: LayerId | null
  readonly made: boolean
}

/** Flattening copies whole trees: one at a time in a store. */
const FLATTENING = "flattening"

/**
 * Makes one layer of a stack's frozen ones, which shows the same. The kernel itself merges: they are mounted read-only
 * and copied. Nothing waits for it: a sandbox that has the stack's top goes on with the old layers, and the next one
 * gets the same top on the single layer.
 */
export const flatten = (
  context: Context,
  key: StackKey,
  { signal }: Call = {},
): Promise<Flattened> =>
  context.serially(FLATTENING, async () => {
    signal?.throwIfAborted()
    const { layer: highest } = await readStack(context, key)
    if (highest === null) return { layer: null, made: false }
    const merged =
      (await findFlat(context, highest)) ??
      (await whileReading(context, highest, (layers) =>
        layers.length < 2 ? Promise.resolve(highest) : mergeAll(context, layers, signal),
      ))
    if (merged === highest) return { layer: highest, made: false }
    await adoptIfFree(context, key)
    return { layer: merged, made: true }
  })

const mergeAll = (
  context: Context,
  layers: readonly LayerId[],
  signal: AbortSignal | undefined,
): Promise<LayerId> => {
  const { at } = context
  const id = newId.layer()
  return inDraft(context, id, async (draft) => {
    const merged = join(draft.directory, "merged")
    await mkdir(merged)
    await at("flatten.prepared")
    await copyMerged(context, layers, { merged, tree: draft.tree }, signal)
    await discardTree(merged)
    await at("flatten.copied")
    await writeLayer(context, { id, parents: [], origin: "flatten" }, draft, signal)
    await at("flatten.described")
    await context.serially(STORE, async () => {
      await install(context, draft.directory, id)
      await at("flatten.renamed")
      await writeFlat(context, layers.at(-1) ?? id, id)
      await at("flatten.noted")
    })
    return id
  })
}

/** Puts the stack on its flat layer, unless a sandbox has the top: then the layers stay until it is gone. */
const adoptIfFree = (context: Context, key: StackKey): Promise<void> =>
  context.serially(stackName(key), async () => {
    const stack = await readStack(context, key)
    try {
      if (stack.top !== null) await assertFree(context, stack.top)
    } catch (thrown) {
      if (thrown instanceof BerthError && thrown.code === "layers.top_in_use") return
      throw thrown
    }
    await rebaseOnFlat(context, stack)
  })
