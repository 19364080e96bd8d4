import type { LayerId } from "@berth/protocol/ids"
import { type Context, STORE } from "../store/context.ts"
import { stackBelow } from "./layer.ts"

/** Keeps a layer and those below it from being collected while an operation of this process reads them. */
export const whileReading = <Result>(
  context: Context,
  layer: LayerId,
  work: (stack: readonly LayerId[]) => Promise<Result>,
): Promise<Result> => whileKeeping(context, () => stackBelow(context, layer), work)

/** Keeps layers from being collected until the work ends. `find` names them while nothing is collected. */
export const whileKeeping = async <Result>(
  context: Context,
  find: () => Promise<readonly LayerId[]>,
  work: (layers: readonly LayerId[]) => Promise<Result>,
): Promise<Result> => {
  const mark = Symbol()
  const found = await context.serially(STORE, async () => {
    const layers = await find()
    context.reading.set(mark, layers)
    return layers
  })
  try {
    return await work(found)
  } finally {
    context.reading.delete(mark)
  }
}
