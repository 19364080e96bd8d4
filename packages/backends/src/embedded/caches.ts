import { randomUUID } from "node:crypto"
import { chown, mkdir, readdir, rename, stat, utimes } from "node:fs/promises"
import { join } from "node:path"
import { removeTree } from "@berth/host/remove-tree"
import { Slug } from "@berth/protocol/ids"
import { CacheName } from "@berth/protocol/workspace"
import type { CacheResult, FoundCache } from "../backend.ts"

/** Directories that the sandboxes of one workspace share, so that packages are fetched once. */
export interface Caches {
  path(workspace: Slug, cache: CacheName): string
  ensure(workspace: Slug, caches: readonly CacheName[]): Promise<readonly CacheResult[]>
  list(): Promise<readonly FoundCache[]>
  /** Removes a cache that no sandbox has. */
  remove(workspace: Slug, cache: CacheName, signal: AbortSignal): Promise<void>
  /** Deletes leftovers of interrupted removals. */
  sweep(signal: AbortSignal): Promise<void>
}

/** The trash for removed caches. No workspace has such a name. */
const TRASH = ".trash"

export const openCaches = (root: string, owner: number): Caches => {
  const trash = join(root, TRASH)
  const path = (workspace: Slug, cache: CacheName) => join(root, workspace, cache)

  const ensureOne = async (workspace: Slug, cache: CacheName): Promise<CacheResult> => {
    try {
      await mkdir(path(workspace, cache), { recursive: true, mode: 0o755 })
      await chown(path(workspace, cache), owner, owner)
      const now = new Date()
      await utimes(path(workspace, cache), now, now)
      return { cache, ready: true }
    } catch (thrown) {
      return { cache, ready: false, engineSaid: (thrown as Error).message }
    }
  }

  const namesIn = async (directory: string): Promise<string[]> =>
    (await readdir(directory).catch(absent)) ?? []

  const find = async (workspace: Slug, cache: CacheName): Promise<FoundCache[]> => {
    const directory = path(workspace, cache)
    const seen = await stat(directory).catch(absent)
    const usedAt = seen?.mtime.toISOString() ?? null
    return seen === undefined ? [] : [{ workspace, cache, usedAt, directory }]
  }

  const listOf = async (workspace: Slug): Promise<FoundCache[]> => {
    const names = await namesIn(join(root, workspace))
    const caches = names.flatMap((name) => CacheName.safeParse(name).data ?? [])
    return (await Promise.all(caches.map((cache) => find(workspace, cache)))).flat()
  }

  return {
    path,
    ensure: (workspace, caches) => Promise.all(caches.map((cache) => ensureOne(workspace, cache))),
    list: async () => {
      const workspaces = (await namesIn(root)).flatMap((name) => Slug.safeParse(name).data ?? [])
      return (await Promise.all(workspaces.map(listOf))).flat()
    },
    remove: async (workspace, cache, signal) => {
      const own = join(trash, randomUUID())
      await mkdir(trash, { recursive: true, mode: 0o700 })
      // The rename makes the cache whole or absent, whatever interrupts the removal.
      await rename(path(workspace, cache), own).catch(absent)
      // Deletes this cache alone: a failure to delete another one is no failure of this removal.
      await removeTree(own, { signal })
    },
    sweep: (signal) => removeTree(trash, { signal, isUrgent: false }),
  }
}

const absent = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT" && thrown.code !== "ENOTDIR") throw thrown
}
