import { chown, mkdir } from "node:fs/promises"
import { join } from "node:path"
import type { Slug } from "@berth/protocol/ids"
import type { CacheName } from "@berth/protocol/workspace"
import type { CacheResult } from "../backend.ts"

/** Directories that the sandboxes of one workspace share, so that packages are fetched once. */
export interface Caches {
  path(workspace: Slug, cache: CacheName): string
  ensure(workspace: Slug, caches: readonly CacheName[]): Promise<readonly CacheResult[]>
}

export const openCaches = (root: string, owner: number): Caches => {
  const path = (workspace: Slug, cache: CacheName) => join(root, workspace, cache)

  const ensureOne = async (workspace: Slug, cache: CacheName): Promise<CacheResult> => {
    try {
      await mkdir(path(workspace, cache), { recursive: true, mode: 0o755 })
      await chown(path(workspace, cache), owner, owner)
      return { cache, ready: true }
    } catch (thrown) {
      return { cache, ready: false, engineSaid: (thrown as Error).message }
    }
  }

  return {
    path,
    ensure: (workspace, caches) => Promise.all(caches.map((cache) => ensureOne(workspace, cache))),
  }
}
