import { posix } from "node:path"
import { parentsOf } from "./walk.ts"

/** Every path of a tree with these files, its directories among them. */
export const pathsOf = (files: Iterable<{ readonly path: string }>): ReadonlySet<string> => {
  const paths = new Set<string>()
  for (const { path } of files) for (const each of [path, ...parentsOf(path)]) paths.add(each)
  return paths
}

/** Whether a link leads to something within the tree, wherever the tree is mounted. */
export const staysInside = (
  { path, target }: { readonly path: string; readonly target: string },
  paths: ReadonlySet<string>,
): boolean =>
  !posix.isAbsolute(target) && paths.has(posix.join(posix.dirname(path), target).replace(/\/$/, ""))
