import type { SandboxId } from "@berth/protocol/ids"
import { inspectSandbox, removeContainer } from "./containers.ts"
import type { Note } from "./directories.ts"
import { isStackVolume, ours, SANDBOX_LABEL } from "./names.ts"
import { observe } from "./observe.ts"
import type { Parts } from "./parts.ts"
import { listVolumes, removeVolume } from "./volumes.ts"

/** Removes a sandbox by force, from whatever state it is in; whatever else has its name is left alone. */
export const removeSandbox = async (
  parts: Parts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  const { engine, directories } = parts
  const note = (await directories.read(sandbox)) ?? (await lookUp(parts, sandbox, signal))
  if (note === undefined) return removeTraces(parts, sandbox, signal)
  await removeContainer(engine, note.engineId, signal)
  await removeFiles(parts, sandbox, note.volumes, signal)
}

/** What the engine has under the sandbox's name; nothing if it is someone else's. */
const lookUp = async (
  { engine, installation }: Parts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<Note | undefined> => {
  const found = await inspectSandbox(engine, sandbox, signal)
  if (found === undefined || observe(found, installation, []) === undefined) return undefined
  const volumes = (found.Mounts ?? []).map(({ Name }) => Name)
  return { engineId: found.Id, volumes: volumes.filter((name) => isStackVolume(name, sandbox)) }
}

/** Removes what a sandbox had beside a container that is gone. */
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

/** The directory goes last: until then the sandbox is found again. */
const removeFiles = async (
  { engine, directories, network }: Parts,
  sandbox: SandboxId,
  volumes: readonly string[],
  signal: AbortSignal,
): Promise<void> => {
  await Promise.all([
    ...volumes.map((name) => removeVolume(engine, name, signal)),
    network.leave(sandbox, signal),
  ])
  await directories.remove(sandbox)
}
