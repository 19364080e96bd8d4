import type { SandboxId } from "@berth/protocol/ids"
import { removeContainer } from "./engine/containers.ts"
import { ours, SANDBOX_LABEL } from "./engine/names.ts"
import { listVolumes, removeVolume } from "./engine/volumes.ts"
import { idByName } from "./id-by-name.ts"
import { endOrphans } from "./orphans.ts"
import type { Parts } from "./parts.ts"

/** Removes a sandbox by force, from any state. Objects of others that have its name are left alone. */
export const removeSandbox = async (
  parts: Parts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  const note = await parts.directories.read(sandbox)
  if (note !== undefined && (await removeWhole(parts, sandbox, note.engineId, signal)))
    return removeFiles(parts, sandbox, note.volumes, signal)
  const engineId = await idByName(parts, sandbox, signal)
  if (engineId !== undefined) await removeWhole(parts, sandbox, engineId, signal)
  await removeTraces(parts, sandbox, signal)
}

/** Removes a container with everything that runs in it. Returns false if the engine did not have it. */
export const removeWhole = async (
  { engine, far, started, at }: Pick<Parts, "engine" | "far" | "started" | "at">,
  sandbox: SandboxId | undefined,
  engineId: string,
  signal: AbortSignal,
): Promise<boolean> => {
  const isGone = await removeContainer(engine, engineId, signal)
  await at("remove.container")
  // The engine itself ends the processes that it knows of.
  const isKnown = sandbox !== undefined && started.delete(sandbox)
  if (!isKnown && far === undefined) await endOrphans(engineId, signal)
  return isGone
}

/** Removes the rest of a sandbox whose container is gone. */
export const removeTraces = async (
  parts: Parts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  const labels = [ours(parts.installation), `${SANDBOX_LABEL}=${sandbox}`]
  const volumes = await listVolumes(parts.engine, labels, signal)
  const names = volumes.map(({ Name }) => Name)
  await removeFiles(parts, sandbox, names, signal)
}

/** Removes a sandbox's files. The directory goes last: until then the sandbox is found again. */
const removeFiles = async (
  { engine, directories, network, far, mountVolumes }: Parts,
  sandbox: SandboxId,
  volumes: readonly string[],
  signal: AbortSignal,
): Promise<void> => {
  await Promise.all([
    ...volumes.map((name) =>
      far === undefined ? mountVolumes.remove(name, signal) : removeVolume(engine, name, signal),
    ),
    network.leave(sandbox, signal),
  ])
  await directories.remove(sandbox)
}
