import type { BootMode } from "@berth/protocol/boot"
import { BootPlan } from "@berth/protocol/boot-plan"
import { BerthError } from "@berth/protocol/errors"
import { type InstallationId, newId, type SandboxId } from "@berth/protocol/ids"
import type { Overlay, SandboxConfig } from "@berth/protocol/sandbox"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Backend } from "../backends/backend.ts"
import type { Toolbox } from "../toolbox/store.ts"
import { sandboxConfig } from "./config.ts"
import { configHash } from "./config-hash.ts"
import type { Links, SandboxLink } from "./links.ts"
import { plannedRepos, workspaceRepos } from "./repos.ts"

export interface LaunchParts {
  readonly backend: Backend
  readonly links: Links
  readonly installation: InstallationId
  readonly toolbox: Pick<Toolbox, "id" | "directory">
}

export interface Launch {
  readonly workspace: WorkspaceSpec
  readonly mode: BootMode
  /** Default: a new one. */
  readonly sandbox?: SandboxId
  /** The workspace's files, for the mounts of kind `stack`. */
  readonly stacks?: readonly { readonly overlay: Overlay; readonly target: string }[]
}

/** Makes and starts a sandbox for a workspace. It boots from here on: its link says how far it is. */
export const launch = async (
  { backend, links, installation, toolbox }: LaunchParts,
  { workspace, mode, sandbox = newId.sandbox(), stacks = [] }: Launch,
  signal: AbortSignal,
): Promise<SandboxLink> => {
  const repos = plannedRepos(workspaceRepos(workspace.repos))
  const system = await backend.resolveSystem(workspace.system, { signal })
  const config = withStacks(sandboxConfig(workspace, system, repos, toolbox), stacks)
  const identity = {
    ...{ installation, workspace: workspace.slug, sandbox },
    configHash: configHash(config),
  }
  if ((await backend.inspect(sandbox, { signal })) !== undefined)
    throw new BerthError("backend.conflict", `there is a sandbox ${sandbox} already`, {
      details: { sandbox },
    })
  const link = await links.make(BootPlan.parse({ sandbox, mode, ...config.boot }))
  const overlays = stacks.map(({ overlay }) => overlay)
  try {
    await backend.create({ identity, config, overlays, link: link.directory }, { signal })
    await backend.start(sandbox, { signal })
    return link
  } catch (thrown) {
    // What a failed create had made is gone, or is found by the next `recover`; a started one is not given away.
    await backend.remove(sandbox)
    await links.remove(sandbox)
    throw thrown
  }
}

/** Takes a sandbox away, with its link. The workspace's files stay in their layers. */
export const dismiss = async (
  { backend, links }: Pick<LaunchParts, "backend" | "links">,
  sandbox: SandboxId,
  { graceMs }: { graceMs: number },
): Promise<void> => {
  if ((await backend.inspect(sandbox)) !== undefined) await backend.stop(sandbox, { graceMs })
  await backend.remove(sandbox)
  await links.remove(sandbox)
}

const withStacks = (config: SandboxConfig, stacks: Launch["stacks"] = []): SandboxConfig => ({
  ...config,
  mounts: [
    ...config.mounts,
    ...stacks.map(({ overlay, target }) => ({
      ...{ kind: "stack" as const, stack: overlay.stack, target },
    })),
  ],
})
