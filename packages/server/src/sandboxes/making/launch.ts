import type { Backend } from "@berth/backends/backend"
import type { BootMode } from "@berth/protocol/boot"
import { BootPlan } from "@berth/protocol/boot-plan"
import type { InstallationId, SandboxId, Slug } from "@berth/protocol/ids"
import type { Overlay } from "@berth/protocol/sandbox"
import type { FailPoint } from "../state/fail-point.ts"
import type { SharedDirectories, SharedDirectory } from "../state/shared-directories.ts"
import { withReadyCaches } from "./caches/ready.ts"
import type { DesiredConfig } from "./desired-configs.ts"

export interface LaunchParts {
  readonly backend: Backend
  readonly sharedDirectories: SharedDirectories
  readonly installation: InstallationId
  readonly at: FailPoint
}

export interface Launch {
  readonly sandbox: SandboxId
  readonly workspace: Slug
  readonly desired: DesiredConfig
  readonly mode: BootMode
  /** The workspace's files, for the mounts of kind `stack`. */
  readonly overlays: readonly Overlay[]
  /** Called with what the sandbox is made without, before it is made. */
  readonly onWarnings: (warnings: readonly string[]) => Promise<void>
}

/**
 * Makes and starts a sandbox for a workspace. It boots from here on: its shared directory says how far it is. A cache that cannot
 * be made is left out; the sandbox is current all the same.
 */
export const launch = async (
  { backend, sharedDirectories, installation, at }: LaunchParts,
  { sandbox, workspace, desired, mode, overlays, onWarnings }: Launch,
  signal: AbortSignal,
): Promise<SharedDirectory> => {
  const identity = {
    installation,
    workspace,
    sandbox,
    configHash: desired.hash,
  }
  const { config, ...cached } = await withReadyCaches(
    backend,
    { workspace, config: desired.config, overlays },
    signal,
  )
  const warnings = [...(desired.warnings ?? []), ...cached.warnings]
  if (warnings.length > 0) await onWarnings(warnings)
  const shared = await sharedDirectories.make(
    BootPlan.parse({ sandbox, mode, warnings, ...config.boot }),
  )
  const spec = { identity, config, overlays: [...overlays], sharedDirectory: shared.directory }
  await at("create.shared")
  await backend.create(spec, { signal })
  await at("create.created")
  await backend.start(sandbox, { signal })
  await at("create.started")
  return shared
}
