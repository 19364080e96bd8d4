import { type Context, list, type Verdict, WHERE } from "./context.ts"
import { checkDeclared, manifestOf, packageOf } from "./manifest.ts"
import { type Rules, SCOPE, TESTING } from "./rules.ts"
import type { Import } from "./scan.ts"
import type { Tree } from "./tree.ts"

/** Checks an import of another package of this project. */
export function checkPackage(specifier: string, kind: Import["kind"], context: Context): Verdict {
  const { home, rules, tree } = context
  const [name = "", ...rest] = specifier.slice(SCOPE.length).split("/")
  const target = `packages/${name}/src/${rest.join("/")}.ts`
  if (!tree.has(target)) return { problem: `there is no ${target}` }
  if (home.packageName === undefined) return { target }

  const { imports: ofAll = [], onNode, onDemand = [] } = rules.packages[home.packageName] ?? {}
  const imports = [...ofAll, ...(onNode?.[home.pathInSrc ?? ""] ?? [])]
  if (name === home.packageName)
    return { target, problem: "a package imports its own files by relative path" }
  if (name === TESTING)
    return {
      target,
      problem: home.forTests ? checkDeclared(specifier, kind, context) : "only tests import it",
    }
  if (imports.includes(name)) return { target, problem: checkDeclared(specifier, kind, context) }
  if (!onDemand.includes(specifier)) {
    const allowed = list([
      ...imports.map((allowedName) => SCOPE + allowedName),
      ...onDemand.map((module) => `${module} by import()`),
    ])
    return {
      target,
      problem: `${name} is not for ${home.packageName}, which may import: ${allowed} (${WHERE})`,
    }
  }
  if (kind === "static")
    return { target, problem: "loaded on demand only: by import(), or by import type" }
  return { target, problem: checkDeclared(specifier, kind, context) }
}

/** A package may declare only those packages of this project that it may import. */
export function checkManifests(tree: Tree, { packages }: Rules): string[] {
  return Object.entries(packages).flatMap(([name, { imports, onNode, onDemand = [] }]) => {
    const file = `packages/${name}/package.json`
    const packagesOf = [...imports, ...Object.values(onNode ?? {}).flat()]
    const allowed = [...packagesOf.map((other) => SCOPE + other), ...onDemand.map(packageOf)]
    return [...(manifestOf(tree, file)?.dependencies ?? [])]
      .filter((dependency) => dependency.startsWith(SCOPE) && !allowed.includes(dependency))
      .map((extra) => `${file} declares ${extra}: ${name} may import: ${list(allowed)} (${WHERE})`)
  })
}
