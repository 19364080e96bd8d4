import { relative } from "node:path"
import type { Backend, CacheResult } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { Slug } from "@berth/protocol/ids"
import type { Mount, Overlay, SandboxConfig } from "@berth/protocol/sandbox"
import type { CacheName } from "@berth/protocol/workspace"
import { cacheEnvironment } from "./places.ts"
import { prepareInStack } from "./prepare-in-stack.ts"

export interface CachesWanted {
  readonly workspace: Slug
  readonly config: SandboxConfig
  readonly overlays: readonly Overlay[]
}

type CacheMount = Extract<Mount, { kind: "cache" }>

/**
 * Makes a workspace's caches, and leaves out the mount and the environment of each that fails, with a warning in the
 * engine's words. For a mount that is not there an engine would make up an empty volume.
 */
export const withReadyCaches = async (
  backend: Pick<Backend, "ensureCaches" | "describe" | "idBase">,
  wanted: CachesWanted,
  signal: AbortSignal,
): Promise<{ readonly config: SandboxConfig; readonly warnings: readonly string[] }> => {
  const { workspace, config } = wanted
  const mounts = config.mounts.filter((mount) => mount.kind === "cache")
  if (mounts.length === 0) return { config, warnings: [] }
  const names = mounts.map(({ cache }) => cache)
  const [made, placed] = await Promise.all([
    backend
      .ensureCaches(workspace, names, { signal })
      .catch((thrown) => names.map((cache) => leftOut(cache, thrown))),
    Promise.all(mounts.map((mount) => place(backend, mount, wanted, signal))),
  ])
  signal.throwIfAborted()
  const failed = new Map<CacheName, string>()
  for (const result of [...made, ...placed])
    if (!result.ready) failed.set(result.cache, result.engineSaid)
  return {
    config: without(config, [...failed.keys()]),
    warnings: [...failed].map(([cache, said]) => `it has no cache for ${cache}: ${said}`),
  }
}

const leftOut = (cache: CacheName, thrown: unknown): CacheResult => {
  const said = thrown instanceof BerthError ? thrown.details.engineSaid : undefined
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return { cache, ready: false, engineSaid: typeof said === "string" ? said : message }
}

/**
 * Prepares the mount point of a cache that lies within the workspace's files, where somebody may have put something
 * else.
 */
const place = async (
  backend: Pick<Backend, "describe" | "idBase">,
  { cache, target }: CacheMount,
  { config, overlays }: CachesWanted,
  signal: AbortSignal,
): Promise<CacheResult> => {
  const around = config.mounts.find(
    (mount) => mount.kind === "stack" && target.startsWith(`${mount.target}/`),
  )
  if (around?.kind !== "stack") return { cache, ready: true }
  try {
    if (!(await backend.describe({ signal })).layers)
      return { cache, ready: false, engineSaid: "its place is in files that are no layers here" }
    const overlay = overlays.find(({ stack }) => stack === around.stack)
    const path = relative(around.target, target)
    if (overlay !== undefined) await prepareInStack(overlay, path, backend.idBase, signal)
    return { cache, ready: true }
  } catch (thrown) {
    return leftOut(cache, thrown)
  }
}

const without = (config: SandboxConfig, caches: readonly CacheName[]): SandboxConfig => {
  if (caches.length === 0) return config
  const own = cacheEnvironment(caches)
  const environment = Object.fromEntries(
    Object.entries(config.boot?.environment ?? {}).filter(([name, value]) => own[name] !== value),
  )
  return {
    ...config,
    mounts: config.mounts.filter(
      (mount) => mount.kind !== "cache" || !caches.includes(mount.cache),
    ),
    ...(config.boot && { boot: { ...config.boot, environment } }),
  }
}
