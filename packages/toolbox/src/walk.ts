import type { BigIntStats } from "node:fs"
import { lstatSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { setImmediate } from "node:timers/promises"

export interface Walked {
  /** The path relative to the tree. */
  readonly path: string
  readonly stats: BigIntStats
}

/**
 * Everything below a directory, by path, without following links. One directory is read at a time: the calls are quick,
 * and other work gets its turn between them.
 */
export const walk = async (
  tree: string,
  signal: AbortSignal,
  without: readonly string[] = [],
): Promise<Walked[]> => {
  const found: Walked[] = []
  const directories = [""]
  for (let at = directories.pop(); at !== undefined; at = directories.pop()) {
    signal.throwIfAborted()
    for (const name of readdirSync(join(tree, at))) {
      const path = at === "" ? name : `${at}/${name}`
      if (without.includes(path)) continue
      const stats = lstatSync(join(tree, path), { bigint: true })
      found.push({ path, stats })
      if (stats.isDirectory()) directories.push(path)
    }
    await setImmediate()
  }
  return found.sort(byPath)
}

/** Compares by code units: the same everywhere, whatever the locale. */
export const byPath = (one: { path: string }, other: { path: string }): number =>
  one.path < other.path ? -1 : one.path > other.path ? 1 : 0

/** The directories that a path lies in, outermost first. */
export const parentsOf = (path: string): string[] => {
  const parts = path.split("/").slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"))
}
