import { readdir } from "node:fs/promises"
import { SandboxId } from "@berth/protocol/ids"
import type { Unrepaired } from "../backend.ts"
import { repairing } from "../repairing.ts"
import type { Parts } from "./parts.ts"
import { removeSandbox, removeTraces } from "./remove.ts"
import { DAMAGED, damagedOnly } from "./state-file.ts"
import { asBackendError } from "./system/files-error.ts"

/**
 * Cleans up after a crash. A sandbox that was being created or removed is removed; one that may have been started is
 * what the runtime says it is; traces of an id that has no directory are removed. Everything else runs on.
 */
export const repairSandboxes = async (
  parts: Parts,
  signal: AbortSignal,
): Promise<readonly Unrepaired[]> => {
  const known = new Set(await parts.states.list())
  const traces = new Set(await tracesOf(parts))
  const { attempt, unrepaired } = repairing(asBackendError, signal)
  await Promise.all([
    ...[...known.union(traces)].map((sandbox) =>
      attempt(sandbox, (within) => repairOne(parts, sandbox, within)),
    ),
    attempt(undefined, (within) => parts.caches.sweep(within)),
  ])
  return unrepaired
}

const repairOne = async (parts: Parts, sandbox: SandboxId, signal: AbortSignal) => {
  const { states, runtime } = parts
  const state = await states.read(sandbox).catch(damagedOnly)
  if (state === DAMAGED) {
    // Only a power loss tears a state file, and after one nothing runs. The sandbox's files are the user's: they stay.
    await states.setAside(sandbox)
    await removeTraces(parts, sandbox, undefined, signal)
  } else if (state === undefined) {
    await removeTraces(parts, sandbox, undefined, signal)
    await states.remove(sandbox, signal)
  } else if (state.progress === "creating" || state.progress === "removing") {
    await removeSandbox(parts, state, signal)
  } else if (state.progress === "created") {
    const started = (await runtime.status(sandbox, signal)) !== "created"
    if (started) await states.write({ ...state, progress: "started" })
  }
}

/** Every id that has traces outside the sandboxes' directories. */
const tracesOf = async ({ states, cgroups, network }: Parts): Promise<SandboxId[]> => {
  const [inRuntime, asExits, inCgroups, inNetwork] = await Promise.all([
    readdir(states.runtimeRoot),
    readdir(states.exits),
    cgroups.list(),
    network.list(),
  ])
  const names = [...inRuntime, ...asExits].filter(
    (name): name is SandboxId => SandboxId.safeParse(name).success,
  )
  return [...names, ...inCgroups, ...inNetwork]
}
