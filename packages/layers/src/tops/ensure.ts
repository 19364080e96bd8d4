import { chmod, chown, lstat, mkdir, rename } from "node:fs/promises"
import { join } from "node:path"
import { settleAll } from "@berth/host/settle-all"
import { syncDirectory } from "@berth/host/sync-directory"
import { newId, type TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { ioError } from "../io/io-error.ts"
import { TOP_RECORD, WORK } from "../io/layout.ts"
import { prepareRecord, putRecord, writeDraftRecord } from "../records/files.ts"
import type { TopRecord } from "../records/schemas.ts"
import { assertDepth } from "../stacks/depth.ts"
import { rebaseOnFlat } from "../stacks/flat.ts"
import { stackBelow } from "../stacks/layer.ts"
import { readStack, type Stack, stackName } from "../stacks/read.ts"
import { stackRecord } from "../stacks/write.ts"
import { type Context, STORE } from "../store/context.ts"
import { discardTree } from "../trees/discard.ts"

/** The owner and mode of the root directory of a stack that has no layers; ids as the sandbox sees them. */
export interface TreeRoot {
  readonly uid: number
  readonly gid: number
  readonly mode: number
}

export interface EnsuredTop {
  readonly top: TopId
  /** False if the stack had a top: a sandbox that is replaced leaves it to the next. */
  readonly made: boolean
}

/** Gives the stack's top, and makes one if there is none. Costs the same whatever lies below. */
export const ensureTop = (context: Context, key: StackKey, root: TreeRoot): Promise<EnsuredTop> =>
  context.serially(stackName(key), async () => {
    const stack = await readStack(context, key)
    if (stack.top !== null) return { top: stack.top, made: false }
    return { top: await makeTop(context, await rebaseOnFlat(context, stack), root), made: true }
  })

const makeTop = async (context: Context, stack: Stack, root: TreeRoot): Promise<TopId> => {
  const { layout, flavour, idBase, underWay, at } = context
  const top = newId.top()
  const draft = join(layout.incoming, top)
  const record: TopRecord = {
    version: 1,
    id: top,
    flavour,
    idBase,
    parents: [...(await stackBelow(context, stack.layer))],
    createdAt: new Date().toISOString(),
  }
  assertDepth(stack.key, record.parents.length)
  underWay.add(top)
  try {
    await mkdir(join(draft, WORK), { recursive: true, mode: 0o700 })
    await settleAll([
      makeRoot(context, stack, join(draft, "tree"), root),
      writeDraftRecord(join(draft, TOP_RECORD), record),
    ])
    await at("top.made")
    await context.serially(STORE, async () => {
      const stackFile = layout.stack(stack.key)
      await settleAll([
        moveDraft(context, draft, top),
        prepareRecord(stackFile, stackRecord({ ...stack, top })),
      ])
      await at("top.renamed")
      // The stack's record comes last: after a loss of power, no stack names a top that does not exist.
      await putRecord(stackFile)
    })
    context.unseen.add(top)
    await at("top.stacked")
    return top
  } catch (thrown) {
    await discardTree(draft)
    throw ioError(thrown, draft)
  } finally {
    underWay.delete(top)
  }
}

const moveDraft = async ({ layout }: Context, draft: string, top: TopId): Promise<void> => {
  await rename(draft, layout.top(top).directory)
  await syncDirectory(layout.tops)
}

/**
 * Makes the root directory of a new top like that of the highest layer: an overlay shows its root as the top has it.
 */
const makeRoot = async (
  { layout, idBase }: Context,
  { layer }: Stack,
  tree: string,
  root: TreeRoot,
): Promise<void> => {
  const { uid, gid, mode } =
    layer === null
      ? { uid: idBase + root.uid, gid: idBase + root.gid, mode: root.mode }
      : await lstat(layout.layer(layer).tree)
  await mkdir(tree)
  await chown(tree, uid, gid)
  await chmod(tree, mode & 0o7777)
}
