import { BerthError } from "@berth/protocol/errors"
import type { StackKey } from "@berth/protocol/layer"
import { stackName } from "./read.ts"

/**
 * From this many layers on a stack is worth flattening: each layer costs every look-up of a name that does not exist.
 */
export const FLATTEN_AT_LAYERS = 24

/** The most layers that fit into a mount's options, whatever the length of the store's own path. */
export const MAX_LAYERS = 60

export const assertDepth = (key: StackKey, layers: number): void => {
  if (layers <= MAX_LAYERS) return
  throw new BerthError(
    "layers.too_deep",
    `the stack ${stackName(key)} has ${layers} layers, ${MAX_LAYERS} can be mounted`,
    { details: { ...key, layers, most: MAX_LAYERS } },
  )
}
