import type { SandboxId } from "@berth/protocol/ids"
import { settleAll } from "../../host/settle-all.ts"
import { listContainers, removeContainer } from "./containers.ts"
import { allowedOf, ours, sandboxOf } from "./names.ts"
import type { Parts } from "./parts.ts"
import { removeTraces } from "./remove.ts"
import { listVolumes } from "./volumes.ts"

/**
 * Puts right what a crash left: a container that was created after its creation had been given up, and
 * directories, volumes and networks of containers that are gone. The rest is left alone: it runs on.
 */
export const recoverSandboxes = async (parts: Parts, signal: AbortSignal): Promise<void> => {
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
  const standing = new Set<SandboxId>()
  for (const { labels } of containers.filter((each) => !abandoned.includes(each))) {
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
  await settleAll(abandoned.map(({ engineId }) => removeContainer(engine, engineId, signal)))
  const gone = [...traces].filter((sandbox) => !standing.has(sandbox))
  await settleAll(gone.map((sandbox) => removeTraces(parts, sandbox, signal)))
  await network.sweep(signal)
}
