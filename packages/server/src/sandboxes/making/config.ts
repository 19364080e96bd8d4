import type { PlannedRepo } from "@berth/protocol/boot-plan"
import { SUPERVISOR_FLAGS, TOOLBOX_TARGET } from "@berth/protocol/inside"
import { SandboxConfig, type SystemIdentity } from "@berth/protocol/sandbox"
import { SHARED_TARGET } from "@berth/protocol/shared-directory"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Toolbox } from "@berth/toolbox/store"
import { cacheEnvironment, cacheMounts } from "./caches/places.ts"
import { CERTIFICATE_ENVIRONMENT } from "./certificate-environment.ts"
import { proxyEnvironment } from "./host-proxy.ts"

/** The host's settings that sandboxes with a network get. */
export interface HostSettings {
  /** The server's own environment, which may name a proxy. */
  readonly variables: Readonly<Record<string, string | undefined>>
  /** The authorities that the host trusts beside the usual ones, in PEM. */
  readonly certificates: readonly string[]
}

/**
 * The config of a workspace's sandbox, with this system and toolbox, on a host with these settings. Equal arguments
 * give equal configs.
 */
export const sandboxConfig = (
  workspace: WorkspaceSpec,
  system: SystemIdentity,
  repos: readonly PlannedRepo[],
  toolbox: Pick<Toolbox, "id" | "directory">,
  host: HostSettings,
): SandboxConfig => {
  const certificates = workspace.network.kind === "open" ? [...host.certificates] : []
  const { hooks, environment, agent, sidecars, network, caches, hostPorts } = workspace
  // The server enforces the disk limits itself, so a change of them makes no sandbox stale.
  const { diskBytes: _bytes, diskInodes: _inodes, ...limits } = workspace.limits
  return SandboxConfig.parse({
    system,
    command: [
      `${TOOLBOX_TARGET}/bin/node`,
      ...SUPERVISOR_FLAGS,
      `${TOOLBOX_TARGET}/supervisor/main.cjs`,
    ],
    mounts: [
      { kind: "directory", source: toolbox.directory, target: TOOLBOX_TARGET, readOnly: true },
      { kind: "shared", target: SHARED_TARGET },
      ...cacheMounts(caches),
    ],
    limits,
    network,
    boot: {
      repos: [...repos],
      hooks,
      agent,
      sidecars,
      ...(hostPorts.length > 0 && { hostPorts: hostPorts.toSorted((one, other) => one - other) }),
      ...(certificates.length > 0 && { certificates }),
      environment: {
        ...cacheEnvironment(caches),
        ...proxyEnvironment(host.variables, environment, network),
        ...(certificates.length > 0 && CERTIFICATE_ENVIRONMENT),
        ...environment,
      },
    },
    agentGeneration: toolbox.id,
    supervisorGeneration: toolbox.id,
  })
}
