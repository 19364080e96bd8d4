import { join } from "node:path"
import type { Parts } from "./parts.ts"
import { pruneSystems } from "./system/skeleton.ts"

/**
 * Takes the ranges of ids of existing sandboxes, removes system trees that no sandbox has, and prepares the tree of the
 * host's own system.
 */
export const prepareHost = async (parts: Parts, signal: AbortSignal): Promise<void> => {
  const { systems, ranges } = await inUse(parts)
  for (const range of ranges) parts.idRanges.hold(range)
  // The first look at the host takes half a second: made here, no sandbox waits for it.
  const { key, root, binds } = await parts.systems.prepare({ kind: "host" }, [], signal)
  await pruneSystems(join(parts.directory, "systems"), systems.add(key))
  await Promise.all([parts.apart.entry(root, parts.rootPlace), parts.apart.binds(binds)])
}

/** The system trees and ranges of ids that the existing sandboxes have. */
const inUse = async ({ states }: Parts) => {
  const all = await states.readAll()
  return {
    systems: new Set(all.map(({ system }) => system).filter((system) => system !== undefined)),
    ranges: all.map(({ idBase }) => idBase).filter((base) => base !== undefined),
  }
}
