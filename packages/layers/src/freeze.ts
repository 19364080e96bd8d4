import { BerthError } from "@berth/protocol/errors"
import type { LayerId, TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { assertFree } from "./claims/free.ts"
import { layerOfTop } from "./io/layout.ts"
import { install, writeLayer } from "./stacks/drafts.ts"
import { rebaseOnFlat } from "./stacks/flat.ts"
import { readStack, readTop, type Stack, stackName } from "./stacks/read.ts"
import { writeStack } from "./stacks/write.ts"
import { type Call, type Context, STORE } from "./store/context.ts"
import { removeTopRemains } from "./tops/remains.ts"
import { isUntouched } from "./tops/untouched.ts"

export interface Frozen {
  readonly layer: LayerId
  /** False if there was nothing to freeze: no top, or one without changes. */
  readonly made: boolean
}

/**
 * Makes a stopped sandbox's top the highest layer of its stack, without a copy. Refused while a sandbox has it. The
 * rename decides: before it there is a top, after it a layer, and a stack is read accordingly.
 */
export const freeze = (context: Context, key: StackKey, { signal }: Call = {}): Promise<Frozen> =>
  context.serially(stackName(key), async () => {
    const found = await readStack(context, key)
    if (found.top !== null) await assertFree(context, found.top)
    const stack = await rebaseOnFlat(context, found)
    if (stack.top === null) return { layer: highest(stack), made: false }
    if (stack.layer !== null && (await isUntouched(context, stack.top, stack.layer))) {
      await context.serially(STORE, () => writeStack(context, { ...stack, top: null }))
      return { layer: stack.layer, made: false }
    }
    return { layer: await freezeTop(context, stack, stack.top, signal), made: true }
  })

const freezeTop = async (
  context: Context,
  stack: Stack,
  top: TopId,
  signal: AbortSignal | undefined,
): Promise<LayerId> => {
  const { layout, at, underWay } = context
  const { directory, tree, layerRecord: record } = layout.top(top)
  const id = layerOfTop(top)
  const { parents } = await readTop(context, top)
  underWay.add(top).add(id)
  context.unseen.delete(top)
  try {
    await writeLayer(context, { id, parents, origin: "freeze" }, { tree, record }, signal)
    await at("freeze.described")
    await context.serially(STORE, async () => {
      await install(context, directory, id)
      await at("freeze.renamed")
      await writeStack(context, { ...stack, layer: id, top: null })
      await at("freeze.stacked")
    })
    await removeTopRemains(context, id)
    await at("freeze.cleaned")
    return id
  } finally {
    underWay.delete(top)
    underWay.delete(id)
  }
}

const highest = ({ key, layer }: Stack): LayerId => {
  if (layer !== null) return layer
  throw new BerthError("layers.unknown", `the stack ${stackName(key)} is empty`, {
    details: { ...key },
  })
}
