import { BerthError } from "@berth/protocol/errors"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { settleAll } from "../../host/settle-all.ts"
import type { Note } from "./directories.ts"
import { isToolbox, stackOptions, toolboxOptions } from "./mounts.ts"
import { INSTALLATION_LABEL, SANDBOX_LABEL, stackVolume, toolboxVolume } from "./names.ts"
import type { Parts } from "./parts.ts"
import { ensureVolume, removeVolume, type Volume } from "./volumes.ts"

/** Makes what of a sandbox's files lies in the engine. */
export const ensureFiles = (parts: Parts, spec: SandboxSpec, signal: AbortSignal): Promise<void> =>
  parts.far?.prepare(spec, signal) ?? ensureStacks(parts, spec, signal)

/** What is to be found again of it. */
export const notedFiles = ({ far }: Parts, spec: SandboxSpec): Omit<Note, "engineId"> => ({
  volumes: far?.volumes(spec) ?? ownVolumes(spec),
  ...(far !== undefined && spec.link !== undefined && { link: spec.link }),
})

/**
 * Makes the volumes through which the engine mounts a sandbox's stacks and its toolbox. They hold nothing themselves:
 * the layers lie in the data directory.
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
  await settleAll([...stacks, ...toolbox].map((volume) => ensureExactly(parts, volume, signal)))
}

const ownVolumes = ({ identity, config }: SandboxSpec): string[] => [
  ...config.mounts
    .filter((mount) => mount.kind === "stack")
    .map(({ stack }) => stackVolume(identity.sandbox, stack)),
  ...(config.mounts.some(isToolbox) ? [toolboxVolume(identity.sandbox)] : []),
]

/** One that a creation left that was cut short may show other layers: no sandbox stands on it. */
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
