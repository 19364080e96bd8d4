import type { Context } from "./context.ts"
import type { Import } from "./scan.ts"
import type { Tree } from "./tree.ts"

export interface Manifest {
  /** The dependencies that are there wherever the package runs. */
  readonly dependencies: ReadonlySet<string>
  /** The dependencies that are there only where the package is developed. */
  readonly devDependencies: ReadonlySet<string>
}

export function manifestOf(tree: Tree, file: string): Manifest | undefined {
  const text = tree.get(file)
  if (text === undefined) return undefined
  const { dependencies, optionalDependencies, peerDependencies, devDependencies } = JSON.parse(text)
  return {
    dependencies: namesIn(dependencies, optionalDependencies, peerDependencies),
    devDependencies: namesIn(devDependencies),
  }
}

const namesIn = (...groups: (object | undefined)[]) =>
  new Set(groups.flatMap((group) => Object.keys(group ?? {})))

/** Checks that the nearest manifest declares an import. For tests and types its development dependencies count. */
export function checkDeclared(
  specifier: string,
  kind: Import["kind"],
  { home, tree }: Context,
): string | undefined {
  const name = packageOf(specifier)
  const root = manifestOf(tree, "package.json")
  const own =
    home.packageName === undefined ? root : manifestOf(tree, `${home.folder}/package.json`)
  const has = (declared: Manifest[keyof Manifest] | undefined) => declared?.has(name) === true
  if (has(own?.dependencies)) return undefined
  if ((home.forTests || kind === "type") && has(own?.devDependencies)) return undefined
  if (home.forTests && has(root?.devDependencies)) return undefined
  return `${name} is not among the dependencies in ${home.packageName === undefined ? "" : `${home.folder}/`}package.json`
}

/** `@scope/name` of `@scope/name/file`. */
export const packageOf = (specifier: string) =>
  specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")
