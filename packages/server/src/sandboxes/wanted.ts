import type { Slug } from "@berth/protocol/ids"
import { type ConfigHash, SandboxConfig, type SystemIdentity } from "@berth/protocol/sandbox"
import type { SystemSource, WorkspaceSpec } from "@berth/protocol/workspace"
import type { Backend } from "../backends/backend.ts"
import type { Toolbox } from "../toolbox/store.ts"
import { sandboxConfig } from "./config.ts"
import { configHash } from "./config-hash.ts"
import { FILE_MOUNTS } from "./files.ts"
import { plannedRepos, workspaceRepos } from "./repos.ts"
import type { Workspaces } from "./workspaces.ts"

/** What a workspace's sandbox is to be. */
export interface Wanted {
  readonly config: SandboxConfig
  readonly hash: ConfigHash
}

/** What a workspace wants of a system and a toolbox. */
export const wantedOf = (
  spec: WorkspaceSpec,
  system: SystemIdentity,
  toolbox: Pick<Toolbox, "id" | "directory">,
): Wanted => {
  const repos = plannedRepos(workspaceRepos(spec.repos))
  const own = sandboxConfig(spec, system, repos, toolbox)
  const config = SandboxConfig.parse({ ...own, mounts: [...own.mounts, ...FILE_MOUNTS] })
  return { config, hash: configHash(config) }
}

export interface WantedParts {
  readonly backend: Pick<Backend, "resolveSystem">
  readonly workspaces: Workspaces
  /** Built if it is not there. */
  readonly toolbox: () => Promise<Pick<Toolbox, "id" | "directory">>
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

export const openWants = ({ backend, workspaces, toolbox }: WantedParts): Wants => {
  const hashes = new Map<Slug, ConfigHash>()
  let found: Pick<Toolbox, "id" | "directory"> | undefined

  /** Raised by whoever knows that something has changed: what was asked before is not noted after. */
  let generation = 0

  const make = async (
    spec: WorkspaceSpec,
    resolve: () => Promise<SystemIdentity>,
    begun: number,
  ): Promise<Wanted> => {
    found = await toolbox()
    const wanted = wantedOf(spec, await resolve(), found)
    if (begun === generation) hashes.set(spec.slug, wanted.hash)
    return wanted
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
      if (hash !== undefined || found === undefined) return hash
      const begun = generation
      const spec = (await workspaces.get(slug))?.spec
      // A workspace that nobody wants any more has sandboxes that nobody replaces.
      if (spec === undefined) return undefined
      const making = make(spec, () => resolveOnce(spec.system), begun)
      const wanted = await making.catch(() => undefined)
      return begun === generation ? wanted?.hash : undefined
    },
    prepare: async () => {
      found = await toolbox()
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
