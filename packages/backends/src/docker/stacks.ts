import { settleAll } from "@berth/host/settle-all"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { makeDevices, terminalOptions } from "./devices.ts"
import type { Note } from "./directories.ts"
import {
  INSTALLATION_LABEL,
  SANDBOX_LABEL,
  stackVolume,
  terminalsVolume,
  toolboxVolume,
} from "./engine/names.ts"
import { ensureVolume, removeVolume, type Volume } from "./engine/volumes.ts"
import type { EngineInfo } from "./info.ts"
import { isToolbox, stackOptions, toolboxOptions } from "./mounts.ts"
import type { Parts } from "./parts.ts"

/** Makes the part of a sandbox's files that lies in the engine. */
export const ensureFiles = (parts: Parts, spec: SandboxSpec, signal: AbortSignal): Promise<void> =>
  parts.far?.prepare(spec, signal) ?? ensureStacks(parts, spec, signal)

/** The names in the engine that the sandbox's note keeps, so that they are found again. */
export const notedFiles = ({ far, info }: Parts, spec: SandboxSpec): Omit<Note, "engineId"> => ({
  volumes: far?.volumes(spec) ?? ownVolumes(spec, info()),
  ...(far !== undefined &&
    spec.sharedDirectory !== undefined && { sharedDirectory: spec.sharedDirectory }),
})

/**
 * Makes the volumes through which the engine mounts a sandbox's stacks, its toolbox and its terminals. They have no
 * contents of their own: the layers lie in the data directory.
 */
const ensureStacks = async (
  parts: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<void> => {
  const { sandbox, installation } = spec.identity
  const labels = { [INSTALLATION_LABEL]: installation, [SANDBOX_LABEL]: sandbox }
  const stacks = stackOptions(spec).map(({ stack, options }) => ({
    name: stackVolume(sandbox, stack),
    labels,
    options,
  }))
  const options = toolboxOptions(spec, parts.directories.paths(sandbox))
  const toolbox = options === undefined ? [] : [{ name: toolboxVolume(sandbox), labels, options }]
  const { ownDevices, idBase } = parts.info()
  const terminals = { name: terminalsVolume(sandbox), labels, options: terminalOptions(idBase) }
  const all = [...stacks, ...toolbox, ...(ownDevices ? [terminals] : [])]
  await settleAll([
    ...all.map((volume) => ensureExactly(parts, volume, signal)),
    ...(ownDevices ? [makeDevices(parts.directories.paths(sandbox).dev, signal)] : []),
  ])
}

const ownVolumes = ({ identity, config }: SandboxSpec, { ownDevices }: EngineInfo): string[] => [
  ...config.mounts
    .filter((mount) => mount.kind === "stack")
    .map(({ stack }) => stackVolume(identity.sandbox, stack)),
  ...(config.mounts.some(isToolbox) ? [toolboxVolume(identity.sandbox)] : []),
  ...(ownDevices ? [terminalsVolume(identity.sandbox)] : []),
]

/**
 * Makes a volume, and replaces one of this sandbox that differs. Such a volume, left by an interrupted creation, may
 * show other layers, and no sandbox stands on it.
 */
const ensureExactly = async (
  { engine }: Parts,
  volume: Volume,
  signal: AbortSignal,
): Promise<void> => {
  try {
    await ensureVolume(engine, volume, signal)
  } catch (thrown) {
    const differs = thrown instanceof BerthError && thrown.code === "backend.volume_wrong"
    const labels = differs ? (thrown.details.labels as Volume["labels"] | null) : null
    if (labels?.[SANDBOX_LABEL] !== volume.labels[SANDBOX_LABEL]) throw thrown
    await removeVolume(engine, volume.name, signal)
    await ensureVolume(engine, volume, signal)
  }
}
