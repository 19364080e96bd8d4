import type { Backend } from "@berth/backends/backend"
import { configHash } from "@berth/backends/config-hash"
import { timeoutSignal } from "@berth/host/timeout-signal"
import type { Slug } from "@berth/protocol/ids"
import { type ConfigHash, SandboxConfig, type SystemIdentity } from "@berth/protocol/sandbox"
import type { SystemSource, WorkspaceSpec } from "@berth/protocol/workspace"
import { optionalAgent } from "@berth/toolbox/inputs/optional-agents"
import type { Toolbox } from "@berth/toolbox/store"
import type { HostCertificates } from "../../certificates/host-certificates.ts"
import { FILE_MOUNTS } from "../files/files.ts"
import { plannedRepos, workspaceRepos } from "../state/repos.ts"
import type { Workspaces } from "../state/workspaces.ts"
import { type HostSettings, sandboxConfig } from "./config.ts"
import type { ToolboxWait } from "./current-toolbox.ts"

/** The sandbox that a workspace wants. */
export interface DesiredConfig {
  readonly config: SandboxConfig
  readonly hash: ConfigHash
  /** The host's settings that the sandbox is made without, and why. */
  readonly warnings?: readonly string[]
}

/** The config that a workspace wants with this system and toolbox. */
export const desiredConfigOf = (
  spec: WorkspaceSpec,
  system: SystemIdentity,
  toolbox: Pick<Toolbox, "id" | "directory">,
  host: HostSettings,
): DesiredConfig => {
  const repos = plannedRepos(workspaceRepos(spec.repos))
  const own = sandboxConfig(spec, system, repos, toolbox, host)
  const config = SandboxConfig.parse({ ...own, mounts: [...own.mounts, ...FILE_MOUNTS] })
  return { config, hash: configHash(config) }
}

/** Gives the toolbox of sandboxes with this agent. It is built if it is not there. */
export type ToolboxOf = (
  agent: WorkspaceSpec["agent"]["kind"],
  wait?: ToolboxWait,
) => Promise<Pick<Toolbox, "id" | "directory">>

export interface DesiredConfigsParts {
  readonly backend: Pick<Backend, "resolveSystem">
  readonly workspaces: Workspaces
  readonly toolbox: ToolboxOf
  /** The server's own environment, which may name a proxy. */
  readonly environment: HostSettings["variables"]
  /** The authorities that the host trusts beside the usual ones, as they are now. */
  readonly certificates: () => Pick<HostCertificates, "added" | "warnings">
}

export interface DesiredWait {
  readonly signal: AbortSignal
  /** Whether a caller that would wait for a toolbox gets its progress as an error instead. */
  readonly isTold: boolean
}

/** The wanted configs of all workspaces. */
export interface DesiredConfigs {
  /** Waits for what is missing: a toolbox to be built, an image to be fetched. */
  of(spec: WorkspaceSpec, wait: DesiredWait): Promise<DesiredConfig>
  /** Answers at once; undefined: not known yet, or not any more. */
  known(slug: Slug): Promise<ConfigHash | undefined>
  /** Finds the toolbox that all of them need, or waits until it is built: until then nothing is known. */
  prepare(): Promise<void>
  /** Forgets all results: images, or a workspace, may have changed. */
  refresh(): void
}

export const openDesiredConfigs = (parts: DesiredConfigsParts): DesiredConfigs => {
  const { backend, workspaces, toolbox, environment } = parts
  const hashes = new Map<Slug, ConfigHash>()
  /** The agents whose toolbox was found once: the toolbox of others may have to be installed first. */
  const found = new Set<string | undefined>()

  /** Raised with every change, so that an answer from before the change is not stored after it. */
  let generation = 0

  const make = async (
    spec: WorkspaceSpec,
    resolve: () => Promise<SystemIdentity>,
    begun: number,
    wait?: DesiredWait,
  ): Promise<DesiredConfig> => {
    const there = await toolbox(spec.agent.kind, wait)
    found.add(optionalAgent(spec.agent.kind))
    const { added, warnings } = parts.certificates()
    const host = { variables: environment, certificates: added }
    const wanted = desiredConfigOf(spec, await resolve(), there, host)
    if (begun === generation) hashes.set(spec.slug, wanted.hash)
    return { ...wanted, warnings: spec.network.kind === "open" ? warnings : [] }
  }

  /** The systems by source: many workspaces have the same one. */
  const systems = new Map<string, Promise<SystemIdentity>>()
  const resolveOnce = (source: SystemSource): Promise<SystemIdentity> => {
    const key = JSON.stringify(source)
    const known = systems.get(key)
    if (known !== undefined) return known
    const system = backend.resolveSystem(source, { signal: timeoutSignal(KNOWN_MS) })
    systems.set(key, system)
    system.catch(() => {
      if (systems.get(key) === system) systems.delete(key)
    })
    return system
  }

  return {
    of: (spec, wait) => {
      const { signal } = wait
      const resolve = () => {
        signal.throwIfAborted()
        return backend.resolveSystem(spec.system, { signal })
      }
      return make(spec, resolve, generation, wait)
    },
    known: async (slug) => {
      const hash = hashes.get(slug)
      if (hash !== undefined || found.size === 0) return hash
      const begun = generation
      const spec = (await workspaces.get(slug))?.spec
      // A workspace that was removed wants nothing, so its sandboxes are not replaced.
      if (spec === undefined || !found.has(optionalAgent(spec.agent.kind))) return undefined
      const making = make(spec, () => resolveOnce(spec.system), begun)
      const wanted = await making.catch(() => undefined)
      return begun === generation ? wanted?.hash : undefined
    },
    prepare: async () => {
      await toolbox("shell")
      found.add(undefined)
    },
    refresh: () => {
      generation += 1
      hashes.clear()
      systems.clear()
    },
  }
}

/** The identity of a local image is read at once; an image that has to be fetched must not hold up a decision. */
const KNOWN_MS = 5_000
