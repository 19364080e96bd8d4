import { BerthError } from "@berth/protocol/errors"
import type { LayerId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { assertFree } from "../claims/free.ts"
import { type Context, STORE } from "../store/context.ts"
import { findFlat } from "./flat.ts"
import { readLayer } from "./layer.ts"
import { findStack, stackName } from "./read.ts"
import { writeStack } from "./write.ts"

export interface PutOptions {
  /** Replaces an existing stack; the files on its top are given up. */
  readonly replace?: boolean
}

/**
 * Puts a workspace's files on a frozen stack: nothing (`null`) for a fresh one, another workspace's layer
 * for a fork, an earlier one for a restore. Nothing is copied.
 */
export const putStack = (
  context: Context,
  key: StackKey,
  layer: LayerId | null,
  { replace = false }: PutOptions = {},
): Promise<void> =>
  context.serially(stackName(key), async () => {
    const existing = await findStack(context, key)
    if (existing && !replace) {
      throw new BerthError("layers.exists", `the stack ${stackName(key)} exists`, {
        details: { ...key },
      })
    }
    if (existing?.top) await assertFree(context, existing.top)
    await context.serially(STORE, async () => {
      if (layer !== null) await readLayer(context, layer)
      const flat = await findFlat(context, layer)
      await writeStack(context, { key, layer: flat ?? layer, top: null })
    })
  })
