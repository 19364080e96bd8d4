import type { Slug } from "@berth/protocol/ids"
import { type ConfigHash, SandboxConfig, type SystemIdentity } from "@berth/protocol/sandbox"
import type { SystemSource, WorkspaceSpec } from "@berth/protocol/workspace"
import type { Backend } from "../backends/backend.ts"
import type { HostCertificates } from "../certificates/host-certificates.ts"
import { optionalAgent } from "../toolbox/agents/optional.ts"
import type { Toolbox } from "../toolbox/store.ts"
import { type HostSettings, sandboxConfig } from "./config.ts"
import { configHash } from "./config-hash.ts"
import { FILE_MOUNTS } from "./files.ts"
import { plannedRepos, workspaceRepos } from "./repos.ts"
import type { Workspaces } from "./workspaces.ts"

/** What a workspace's sandbox is to be. */
export interface Wanted {
  readonly config: SandboxConfig
  readonly hash: ConfigHash
  /** What of the host's settings it is without, and why. */
  readonly warnings?: readonly string[]
}

/** What a workspace wants of a system and a toolbox. */
export const wantedOf = (
  spec: WorkspaceSpec,
  system: SystemIdentity,
  toolbox: Pick<Toolbox, "id" | "directory">,
  host: HostSettings,
): Wanted => {
  const repos = plannedRepos(workspaceRepos(spec.repos))
  const own = sandboxConfig(spec, system, repos, toolbox, host)
  const config = SandboxConfig.parse({ ...own, mounts: [...own.mounts, ...FILE_MOUNTS] })
  return { config, hash: configHash(config) }
}

/** Gives the toolbox of sandboxes with this agent. It is built if it is not there. */
export type ToolboxOf = (
  agent: WorkspaceSpec["agent"]["kind"],
) => Promise<Pick<Toolbox, "id" | "directory">>

export interface WantedParts {
  readonly backend: Pick<Backend, "resolveSystem">
  readonly workspaces: Workspaces
  readonly toolbox: ToolboxOf
  /** The server's own, which may name a proxy. */
  readonly environment: HostSettings["variables"]
  /** The authorities that the host trusts beside the usual ones, as they are now. */
  readonly certificates: () => Pick<HostCertificates, "added" | "warnings">
}

/** What the workspaces want now. */
export interface Wants {
  /** Waits for what is missing: a toolbox to be built, an image to be fetched. */
  of(spec: WorkspaceSpec, signal: AbortSignal): Promise<Wanted>
  /** At once; undefined: not known yet, or not any more. */
  known(slug: Slug): Promise<ConfigHash | undefined>
  /** Finds what all of them need, or waits until it is built: until then nothing is known. */
  prepare(): Promise<void>
  /** Images may have changed, or a workspace has. */
  refresh(): void
}

export const openWants = (parts: WantedParts): Wants => {
  const { backend, workspaces, toolbox, environment } = parts
  const hashes = new Map<Slug, ConfigHash>()
  /** The agents whose toolbox was there once: what is wanted with others may have to be installed first. */
  const found = new Set<string | undefined>()

  /** Raised by whoever knows that something has changed: what was asked before is not noted after. */
  let generation = 0

  const make = async (
    spec: WorkspaceSpec,
    resolve: () => Promise<SystemIdentity>,
    begun: number,
  ): Promise<Wanted> => {
    const there = await toolbox(spec.agent.kind)
    found.add(optionalAgent(spec.agent.kind))
    const { added, warnings } = parts.certificates()
    const host = { variables: environment, certificates: added }
    const wanted = wantedOf(spec, await resolve(), there, host)
    if (begun === generation) hashes.set(spec.slug, wanted.hash)
    return { ...wanted, warnings: spec.network.kind === "open" ? warnings : [] }
  }

  /** Many workspaces have the same system. */
  const systems = new Map<string, Promise<SystemIdentity>>()
  const resolveOnce = (source: SystemSource): Promise<SystemIdentity> => {
    const key = JSON.stringify(source)
    const known = systems.get(key)
    if (known !== undefined) return known
    const system = backend.resolveSystem(source, { signal: AbortSignal.timeout(KNOWN_MS) })
    systems.set(key, system)
    system.catch(() => {
      if (systems.get(key) === system) systems.delete(key)
    })
    return system
  }

  return {
    of: (spec, signal) =>
      make(
        spec,
        () => {
          signal.throwIfAborted()
          return backend.resolveSystem(spec.system, { signal })
        },
        generation,
      ),
    known: async (slug) => {
      const hash = hashes.get(slug)
      if (hash !== undefined || found.size === 0) return hash
      const begun = generation
      const spec = (await workspaces.get(slug))?.spec
      // A workspace that nobody wants any more has sandboxes that nobody replaces.
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

/** An image that is there is named at once; one that is not must not hold up a decision. */
const KNOWN_MS = 5_000
