import { statSync } from "node:fs"
import { resolve } from "node:path"
import type { FeatureParts } from "./parts.ts"

/**
 * The directory in which a command or terminal starts. Without a named one, that is the workspace's only repo, once it
 * is cloned. A relative one is below the workspace.
 */
export const workingDirectory = (
  named: string | undefined,
  { places, onlyRepo }: Pick<FeatureParts, "places" | "onlyRepo">,
): string => {
  if (named !== undefined) return resolve(places.workspace, named)
  return onlyRepo !== undefined && isDirectory(onlyRepo) ? onlyRepo : places.workspace
}

export const isDirectory = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
