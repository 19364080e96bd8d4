import { rmdir } from "node:fs/promises"
import { dirname } from "node:path"
import type { StackKey } from "@berth/protocol/layer"
import { assertFree } from "../claims/free.ts"
import { removeRecord } from "../records/files.ts"
import { type Context, STORE } from "../store/context.ts"
import { findStack, stackName } from "./read.ts"

/** Forgets a stack; its layers and its top go with the next collection, unless something else stands on them. */
export const removeStack = (context: Context, key: StackKey): Promise<void> =>
  context.serially(stackName(key), async () => {
    const stack = await findStack(context, key)
    if (stack === undefined) return
    if (stack.top) await assertFree(context, stack.top)
    await context.serially(STORE, async () => {
      const file = context.layout.stack(key)
      await removeRecord(file)
      // The workspace's directory goes with its last stack.
      await rmdir(dirname(file)).catch(() => {})
    })
  })
