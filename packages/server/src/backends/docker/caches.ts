import { chown } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId, Slug } from "@berth/protocol/ids"
import { AGENT_USER } from "@berth/protocol/inside"
import type { CacheName } from "@berth/protocol/workspace"
import type { CacheResult } from "../backend.ts"
import type { Engine } from "./engine.ts"
import type { EngineInfo } from "./info.ts"
import { cacheVolume, INSTALLATION_LABEL } from "./names.ts"
import { ensureVolume, findVolume } from "./volumes.ts"

/** Volumes that the sandboxes of one workspace share, so that packages are fetched once. */
export interface Caches {
  ensure(
    workspace: Slug,
    caches: readonly CacheName[],
    signal: AbortSignal,
  ): Promise<readonly CacheResult[]>
  /** Refuses a cache that is not there: the engine would make up an empty volume without a word. */
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
      "berth.workspace": workspace,
      "berth.cache": cache,
    },
    options: {},
  })

  const ensureOne = async (
    workspace: Slug,
    cache: CacheName,
    signal: AbortSignal,
  ): Promise<CacheResult> => {
    try {
      const { Mountpoint } = await ensureVolume(engine, volumeOf(workspace, cache), signal)
      const owner = info().idBase + AGENT_USER.uid
      // One that lies elsewhere is given to its user when a sandbox is made with it.
      if (info().local) await chown(Mountpoint, owner, owner)
      return { cache, ready: true }
    } catch (thrown) {
      return { cache, ready: false, engineSaid: wordsOf(thrown) }
    }
  }

  return {
    ensure: (workspace, caches, signal) =>
      Promise.all(caches.map((cache) => ensureOne(workspace, cache, signal))),

    async require(workspace, cache, signal) {
      const { name, labels } = volumeOf(workspace, cache)
      const found = await findVolume(engine, name, signal)
      const own = found?.Labels?.["berth.cache"] === labels["berth.cache"]
      if (found !== undefined && own) return
      throw new BerthError("backend.mount_invalid", `the cache ${cache} is not there`, {
        details: { cache, workspace, volume: name, exists: found !== undefined },
      })
    },
  }
}

const wordsOf = (thrown: unknown): string =>
  thrown instanceof BerthError && typeof thrown.details.engineSaid === "string"
    ? thrown.details.engineSaid
    : (thrown as Error).message
