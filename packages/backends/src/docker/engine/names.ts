import { type InstallationId, SandboxId, type Slug } from "@berth/protocol/ids"
import { Ipv4Range } from "@berth/protocol/network"
import { SandboxIdentity, type SandboxSpec } from "@berth/protocol/sandbox"
import type { CacheName } from "@berth/protocol/workspace"
import { z } from "zod"

export type Labels = Readonly<Record<string, string>>

/** The installation that an object belongs to. Everything of ours in an engine carries this label. */
export const INSTALLATION_LABEL = "berth.installation"
export const SANDBOX_LABEL = "berth.sandbox"
export const WORKSPACE_LABEL = "berth.workspace"
/** The cache or the stack of a volume that the sandboxes of a workspace hand on. */
export const CACHE_LABEL = "berth.cache"
export const STACK_LABEL = "berth.stack"
const CONFIG_HASH_LABEL = "berth.config-hash"
/** The ranges that a sandbox may reach beside the internet; absent if there are none. */
const ALLOW_LABEL = "berth.network-allow"
/** The exact time of creation: in lists the engine tells whole seconds only. */
const CREATED_LABEL = "berth.created-at"

/** The label filter for everything of this installation. */
export const ours = (installation: InstallationId): string =>
  `${INSTALLATION_LABEL}=${installation}`

export const containerName = (sandbox: SandboxId): string => `berth-${sandbox}`
export const stackVolume = (sandbox: SandboxId, stack: Slug): string => `berth-${sandbox}-${stack}`
/** No stack has such a name: a slug holds no underscore. */
export const toolboxVolume = (sandbox: SandboxId): string => `berth-${sandbox}_toolbox`
export const terminalsVolume = (sandbox: SandboxId): string => `berth-${sandbox}_terminals`
export const cacheVolume = (installation: InstallationId, workspace: Slug, cache: CacheName) =>
  `berth-${installation}-${workspace}-${cache}`

export const sandboxLabels = (
  { identity, config: { network } }: SandboxSpec,
  createdAt: string,
): Labels => ({
  [INSTALLATION_LABEL]: identity.installation,
  [WORKSPACE_LABEL]: identity.workspace,
  [SANDBOX_LABEL]: identity.sandbox,
  [CONFIG_HASH_LABEL]: identity.configHash,
  [CREATED_LABEL]: createdAt,
  ...(network.kind === "open" &&
    network.allow.length > 0 && { [ALLOW_LABEL]: network.allow.join(" ") }),
})

/**
 * The identity of a container by its labels; undefined if it is not this installation's, or if somebody damaged the
 * labels.
 */
export const readLabels = (
  labels: Labels,
  installation: InstallationId,
): { readonly identity: SandboxIdentity; readonly createdAt: string } | undefined => {
  const createdAt = labels[CREATED_LABEL]
  const identity = SandboxIdentity.safeParse({
    installation: labels[INSTALLATION_LABEL],
    workspace: labels[WORKSPACE_LABEL],
    sandbox: labels[SANDBOX_LABEL],
    configHash: labels[CONFIG_HASH_LABEL],
  })
  if (!identity.success || createdAt === undefined) return undefined
  return identity.data.installation === installation
    ? { identity: identity.data, createdAt }
    : undefined
}

/** The sandbox that an object of ours belongs to. */
export const sandboxOf = (labels: Labels): SandboxId | undefined =>
  SandboxId.safeParse(labels[SANDBOX_LABEL]).data

/** The ranges that a sandbox may reach beside the internet. */
export const allowedOf = (labels: Labels): Ipv4Range[] =>
  z.array(Ipv4Range).safeParse(labels[ALLOW_LABEL]?.split(" ")).data ?? []
