import { chown, stat, utimes } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { type InstallationId, Slug } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import { CacheName } from "@berth/protocol/workspace"
import type { CacheResult, FoundCache } from "../backend.ts"
import type { Engine } from "./engine/engine.ts"
import { CACHE_LABEL, cacheVolume, INSTALLATION_LABEL, WORKSPACE_LABEL } from "./engine/names.ts"
import { ensureVolume, findVolume, listVolumes, type VolumeAnswer } from "./engine/volumes.ts"
import { EnsuredVolumes } from "./ensured-volumes.ts"
import type { EngineInfo } from "./info.ts"

/** Volumes that the sandboxes of one workspace share, so that packages are fetched once. */
export interface Caches {
  ensure(
    workspace: Slug,
    caches: readonly CacheName[],
    signal: AbortSignal,
  ): Promise<readonly CacheResult[]>
  list(signal: AbortSignal): Promise<readonly FoundCache[]>
  /** Returns false if a sandbox has the cache. */
  remove(workspace: Slug, cache: CacheName, signal: AbortSignal): Promise<boolean>
  /** Refuses a cache that does not exist: the engine would make up an empty volume without a word. */
  require(workspace: Slug, cache: CacheName, signal: AbortSignal): Promise<void>
}

export const openCaches = (
  engine: Engine,
  info: () => EngineInfo,
  installation: InstallationId,
): Caches => {
  const volumeOf = (workspace: Slug, cache: CacheName) => ({
    name: cacheVolume(installation, workspace, cache),
    labels: {
      [INSTALLATION_LABEL]: installation,
      [WORKSPACE_LABEL]: workspace,
      [CACHE_LABEL]: cache,
    },
    options: {},
  })
  const volumes = new EnsuredVolumes(
    (volume, signal) => ensureVolume(engine, volume, signal),
    () => performance.now(),
  )

  const ensureOne = async (
    workspace: Slug,
    cache: CacheName,
    signal: AbortSignal,
  ): Promise<CacheResult> => {
    try {
      const { Mountpoint } = await volumes.ensure(volumeOf(workspace, cache), signal)
      const owner = info().idBase + AGENT_USER.uid
      // A cache elsewhere is given to its user when a sandbox is made with it.
      if (info().local) {
        await chown(Mountpoint, owner, owner)
        await utimes(Mountpoint, new Date(), new Date())
      }
      return { cache, ready: true }
    } catch (thrown) {
      return { cache, ready: false, engineSaid: wordsOf(thrown) }
    }
  }

  return {
    ensure: (workspace, caches, signal) =>
      Promise.all(caches.map((cache) => ensureOne(workspace, cache, signal))),

    list: async (signal) => {
      const labels = [`${INSTALLATION_LABEL}=${installation}`, CACHE_LABEL]
      const found = await listVolumes(engine, labels, signal)
      const { local } = info()
      return (await Promise.all(found.map((each) => foundCache(each, local)))).flat()
    },

    remove: async (workspace, cache, signal) => {
      const { name } = volumeOf(workspace, cache)
      volumes.forget(name)
      const path = `/volumes/${name}`
      const { status } = await engine.ask({ method: "DELETE", path }, [204, 404, 409], signal)
      return status !== 409
    },

    async require(workspace, cache, signal) {
      const { name, labels } = volumeOf(workspace, cache)
      if (volumes.isFresh(name)) return
      const found = await findVolume(engine, name, signal)
      const own = found?.Labels?.[CACHE_LABEL] === labels[CACHE_LABEL]
      if (found !== undefined && own) return
      throw new BerthError("backend.mount_invalid", `the cache ${cache} is not there`, {
        details: { cache, workspace, volume: name, exists: found !== undefined },
      })
    },
  }
}

/** A cache elsewhere has no known time of use and no directory on this host. */
const foundCache = async (
  { Labels, Mountpoint }: VolumeAnswer,
  isLocal: boolean,
): Promise<FoundCache[]> => {
  const workspace = Slug.safeParse(Labels?.[WORKSPACE_LABEL]).data
  const cache = CacheName.safeParse(Labels?.[CACHE_LABEL]).data
  if (workspace === undefined || cache === undefined) return []
  const seen = isLocal ? await stat(Mountpoint).catch(() => undefined) : undefined
  const usedAt = seen?.mtime.toISOString() ?? null
  return [{ workspace, cache, usedAt, directory: seen === undefined ? null : Mountpoint }]
}

const wordsOf = (thrown: unknown): string =>
  thrown instanceof BerthError && typeof thrown.details.engineSaid === "string"
    ? thrown.details.engineSaid
    : (thrown as Error).message
