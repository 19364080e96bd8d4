import type { StackKey } from "@berth/protocol/layer"
import type { Layers } from "../layers.ts"
import type { Pinned } from "../pins/pin.ts"
import type { SnapshotOptions } from "../snapshot.ts"

/** Makes a snapshot of one stack. */
export const snapshotOne = async (
  layers: Layers,
  key: StackKey,
  options: SnapshotOptions,
): Promise<Pinned & { readonly frozenMs: number }> => {
  const { layers: pinned, frozenMs } = await layers.snapshot([key], options)
  const [one] = pinned
  if (one === undefined) throw new Error("there is no layer")
  return { ...one, frozenMs }
}
