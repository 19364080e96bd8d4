import type { ObservedSandbox } from "../backend.ts"
import { inspectContainer, type Listed, listContainers } from "./containers.ts"
import { unheldLimits } from "./info.ts"
import { readLabels } from "./names.ts"
import { observe, stateOf } from "./observe.ts"
import type { Parts } from "./parts.ts"

/** This installation's sandboxes. The engine's list tells everything but how one ended. */
export const listSandboxes = async (
  parts: Parts,
  signal: AbortSignal,
): Promise<ObservedSandbox[]> => {
  const listed = await listContainers(parts.engine, parts.installation, signal)
  const all = await Promise.all(listed.map((each) => lookAt(parts, each, signal)))
  return all.filter((seen) => seen !== undefined)
}

const lookAt = async (
  { engine, installation, info }: Parts,
  { engineId, state: status, labels }: Listed,
  signal: AbortSignal,
): Promise<ObservedSandbox | undefined> => {
  const unheld = unheldLimits(info())
  const state = stateOf(status)
  if (state === "exited") {
    const found = await inspectContainer(engine, engineId, signal)
    return found && observe(found, installation, unheld)
  }
  const known = readLabels(labels, installation)
  return known && state && { ...known, state, unheldLimits: unheld }
}
