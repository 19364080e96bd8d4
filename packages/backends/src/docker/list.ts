import { inspectContainer, type Listed, listContainers } from "./engine/containers.ts"
import { type Observed, observe, observeListed } from "./engine/observe.ts"
import { unheldLimits } from "./info.ts"
import type { Parts } from "./parts.ts"

/**
 * Lists this installation's sandboxes. Exited ones are inspected, since the engine's list does not tell how a container
 * ended.
 */
export const listSandboxes = async (parts: Parts, signal: AbortSignal): Promise<Observed[]> => {
  const listed = await listContainers(parts.engine, parts.installation, signal)
  const all = await Promise.all(listed.map((each) => lookAt(parts, each, signal)))
  return all.filter((seen) => seen !== undefined)
}

const lookAt = async (
  { engine, installation, info }: Parts,
  listed: Listed,
  signal: AbortSignal,
): Promise<Observed | undefined> => {
  const unheld = unheldLimits(info())
  const seen = observeListed(listed, installation, unheld)
  if (seen?.state !== "exited") return seen
  const found = await inspectContainer(engine, listed.engineId, signal)
  return found && observe(found, installation, unheld)
}
