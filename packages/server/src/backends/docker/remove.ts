import type { SandboxId } from "@berth/protocol/ids"
import { inspectSandbox, removeContainer } from "./containers.ts"
import { isStackVolume, ours, SANDBOX_LABEL } from "./names.ts"
import { type ContainerAnswer, observe } from "./observe.ts"
import type { Parts } from "./parts.ts"
import { listVolumes, removeVolume } from "./volumes.ts"

/** Removes a sandbox by force, from whatever state it is in; whatever else has its name is left alone. */
export const removeSandbox = async (
  parts: Parts,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<void> => {
  const { engine, installation } = parts
  const found = await inspectSandbox(engine, sandbox, signal)
  const known = found && observe(found, installation, [])
  if (found === undefined || known === undefined) return removeTraces(parts, sandbox, signal)
  await removeContainer(engine, known.engineId, signal)
  await removeFiles(parts, sandbox, stacksOf(found, sandbox), signal)
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

/** The container itself tells its volumes: a list of all takes long while many are removed. */
const stacksOf = ({ Mounts }: ContainerAnswer, sandbox: SandboxId): string[] =>
  (Mounts ?? []).map(({ Name }) => Name).filter((name) => isStackVolume(name, sandbox))

/** The directory goes last: until then the sandbox is found again. */
const removeFiles = async (
  { engine, directories }: Parts,
  sandbox: SandboxId,
  volumes: readonly string[],
  signal: AbortSignal,
): Promise<void> => {
  await Promise.all(volumes.map((name) => removeVolume(engine, name, signal)))
  await directories.remove(sandbox)
}
