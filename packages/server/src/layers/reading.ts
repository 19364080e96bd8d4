import type { LayerId } from "@berth/protocol/ids"
import { type Context, STORE } from "./context.ts"
import { stackBelow } from "./stacks/layer.ts"

/** Keeps a layer and those below it from being collected while an operation of this process reads them. */
export const whileReading = async <Result>(
  context: Context,
  layer: LayerId,
  work: (stack: readonly LayerId[]) => Promise<Result>,
): Promise<Result> => {
  const mark = Symbol()
  const stack = await context.serially(STORE, async () => {
    const found = await stackBelow(context, layer)
    context.reading.set(mark, found)
    return found
  })
  try {
    return await work(stack)
  } finally {
    context.reading.delete(mark)
  }
}
