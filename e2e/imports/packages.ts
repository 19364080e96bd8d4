import { type Context, list, type Verdict, WHERE } from "./context.ts"
import { type Home, isForTests } from "./home.ts"
import { checkDeclared, manifestOf, packageOf } from "./manifest.ts"
import { allowedFor, placeOf } from "./places.ts"
import { type PackageRule, type Rules, SCOPE, TESTING } from "./rules.ts"
import type { Import } from "./scan.ts"
import type { Tree } from "./tree.ts"

/** Checks an import of another package of this project. */
export function checkPackage(specifier: string, kind: Import["kind"], context: Context): Verdict {
  const { home, rules, tree } = context
  const [name = "", ...rest] = specifier.slice(SCOPE.length).split("/")
  const target = `packages/${name}/src/${rest.join("/")}.ts`
  if (!tree.has(target)) return { problem: `there is no ${target}` }
  if (home.packageName === undefined) return { target }

  const rule = rules.packages[home.packageName]
  const { imports: ofAll = [], onNode, onDemand = [] } = rule ?? {}
  const imports = [
    ...ofAll,
    ...(onNode?.[home.pathInSrc ?? ""] ?? []),
    ...(rule === undefined ? [] : packagesFor(home, rule)),
  ]
  if (name === home.packageName)
    return { target, problem: "a package imports its own files by relative path" }
  if (name === TESTING)
    return {
      target,
      problem: home.forTests ? checkDeclared(specifier, kind, context) : "only tests import it",
    }
  if (!home.forTests && isForTests(target))
    return { target, problem: "only tests import what is for tests" }
  if (imports.includes(name)) return { target, problem: checkDeclared(specifier, kind, context) }
  if (!onDemand.includes(specifier)) {
    const allowed = list([
      ...imports.map((allowedName) => SCOPE + allowedName),
      ...onDemand.map((module) => `${module} by import()`),
    ])
    return {
      target,
      problem: `${name} is not for ${whoOf(home, rule)}, which may import: ${allowed} (${WHERE})`,
    }
  }
  if (kind === "static")
    return { target, problem: "loaded on demand only: by import(), or by import type" }
  return { target, problem: checkDeclared(specifier, kind, context) }
}

/** The packages that rows of the table name: those of the file's place, or of every place for tests. */
function packagesFor(home: Home, { places }: PackageRule): string[] {
  if (typeof places === "string") return []
  const rows = home.forTests
    ? Object.values(places).flat()
    : allowedFor(placeOf(home.pathInSrc ?? "", places), places)
  return rows.flatMap((row) => (row.startsWith(SCOPE) ? row.slice(SCOPE.length) : []))
}

/** The part of the project that a rule is about: `server/events` where rows of the table name packages, else the package. */
function whoOf({ packageName, pathInSrc, forTests }: Home, rule: PackageRule | undefined): string {
  const places = rule?.places
  if (forTests || places === undefined || typeof places === "string") return packageName ?? ""
  const isByPlace = Object.values(places).some((row) => row.some((name) => name.startsWith(SCOPE)))
  return isByPlace ? `${packageName}/${placeOf(pathInSrc ?? "", places).name}` : (packageName ?? "")
}

/** A package may declare only those packages of this project that it may import. */
export function checkManifests(tree: Tree, { packages }: Rules): string[] {
  return Object.entries(packages).flatMap(([name, { imports, onNode, onDemand = [], places }]) => {
    const file = `packages/${name}/package.json`
    const packagesOf = [...imports, ...Object.values(onNode ?? {}).flat()]
    const ofPlaces = typeof places === "string" ? [] : Object.values(places).flat()
    const allowed = [
      ...packagesOf.map((other) => SCOPE + other),
      ...onDemand.map(packageOf),
      ...new Set(ofPlaces.filter((row) => row.startsWith(SCOPE))),
    ]
    return [...(manifestOf(tree, file)?.dependencies ?? [])]
      .filter((dependency) => dependency.startsWith(SCOPE) && !allowed.includes(dependency))
      .map((extra) => `${file} declares ${extra}: ${name} may import: ${list(allowed)} (${WHERE})`)
  })
}
