import type { SandboxId } from "@berth/protocol/ids"
import type { Unrepaired } from "../backend.ts"
import { repairing } from "../repairing.ts"
import { type Listed, listContainers } from "./engine/containers.ts"
import { asBackendError } from "./engine/failures.ts"
import { allowedOf, ours, sandboxOf } from "./engine/names.ts"
import { listVolumes } from "./engine/volumes.ts"
import type { Parts } from "./parts.ts"
import { removeSandbox, removeWhole } from "./remove.ts"

/**
 * Removes leftovers of a crash: a container that was created after its creation had been given up, and directories,
 * volumes and networks of containers that are gone. Everything else runs on.
 */
export const repairSandboxes = async (
  parts: Parts,
  signal: AbortSignal,
): Promise<readonly Unrepaired[]> => {
  const { engine, installation, directories, network } = parts
  const [containers, volumes, listed] = await Promise.all([
    listContainers(engine, installation, signal),
    listVolumes(engine, [ours(installation)], signal),
    directories.list(),
  ])
  const withDirectory = new Set(listed)
  const abandoned = containers.filter(({ state, labels }) => {
    const sandbox = sandboxOf(labels)
    return state === "created" && (sandbox === undefined || !withDirectory.has(sandbox))
  })
  const { attempt, unrepaired } = repairing(asBackendError, signal)
  const removed = new Set<Listed>()
  const remove = async (each: Listed) => {
    const isGone = await attempt(sandboxOf(each.labels), (within) =>
      removeWhole(parts, sandboxOf(each.labels), each.engineId, within),
    )
    if (isGone) removed.add(each)
  }
  await Promise.all(abandoned.map(remove))
  const standing = new Set<SandboxId>()
  for (const { labels } of containers.filter((each) => !removed.has(each))) {
    const sandbox = sandboxOf(labels)
    if (sandbox === undefined) continue
    standing.add(sandbox)
    network.join(sandbox, allowedOf(labels))
  }
  const traces = new Set<SandboxId>(listed)
  for (const { Labels } of volumes) {
    const sandbox = sandboxOf(Labels ?? {})
    if (sandbox !== undefined) traces.add(sandbox)
  }
  const gone = [...traces].filter((sandbox) => !standing.has(sandbox))
  // Removes the whole sandbox: the container may be gone while processes of it still have its files mounted.
  await Promise.all(
    gone.map((sandbox) => attempt(sandbox, (within) => removeSandbox(parts, sandbox, within))),
  )
  await attempt(undefined, (within) => network.sweep(within))
  return unrepaired
}
