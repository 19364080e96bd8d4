import { isBuiltin } from "node:module"
import path from "node:path"
import { type Context, type Verdict, WHERE } from "./context.ts"
import { findCycles } from "./cycles.ts"
import { type Home, homeOf, isForTests } from "./home.ts"
import { checkDeclared } from "./manifest.ts"
import { checkManifests, checkPackage } from "./packages.ts"
import { placeOf } from "./places.ts"
import { checkRelative } from "./relative.ts"
import { type Rules, SCOPE } from "./rules.ts"
import { type Import, scanImports } from "./scan.ts"
import { isSource, type Tree } from "./tree.ts"

/** Returns everything in the tree that breaks the rules, in one sentence each: the file, the import, and what is allowed. */
export function checkImports(tree: Tree, rules: Rules): string[] {
  const problems: string[] = []
  const graph = new Map<string, string[]>()

  for (const [file, text] of tree) {
    if (!isSource(file)) continue
    const home = homeOf(file, rules)
    problems.push(...checkFile(file, home, rules))
    const targets: string[] = []
    for (const found of scanImports(file, text)) {
      const { problem, target } = checkImport(found, { file, home, rules, tree })
      const name = found.specifier === null ? "a computed name" : `"${found.specifier}"`
      if (problem !== undefined) problems.push(`${file}:${found.line} imports ${name}: ${problem}`)
      if (target !== undefined) targets.push(target)
    }
    graph.set(file, targets)
  }

  for (const cycle of findCycles(graph)) problems.push(`import cycle: ${cycle.join(" → ")}`)
  problems.push(...checkManifests(tree, rules))
  return problems
}

/** Checks the file by itself: its name, and that its place has a rule. */
function checkFile(file: string, { packageName, pathInSrc }: Home, { packages }: Rules): string[] {
  const problems: string[] = []
  if (/^index\.[^/]+$/.test(path.basename(file)))
    problems.push(`${file}: no index files; importers name the file that holds what they need`)
  if (packageName === undefined) return problems

  const rule = packages[packageName]
  if (rule === undefined)
    return [...problems, `${file}: no rule for the package ${packageName}; add one in ${WHERE}`]
  if (pathInSrc === undefined) return problems
  if (rule.places === "flat") {
    const folder = path.dirname(pathInSrc)
    if (folder !== "." && !isForTests(file))
      problems.push(
        `${file}: no rule for the folder ${folder}; ${packageName} is flat: give it "places" in ${WHERE}`,
      )
    return problems
  }
  const place = placeOf(pathInSrc, rule.places)
  if (place.row === undefined && !isForTests(file))
    problems.push(
      `${file}: no rule for ${place.name}; add a row to the "places" of ${packageName} in ${WHERE}`,
    )
  return problems
}

function checkImport({ specifier, kind }: Import, context: Context): Verdict {
  const { home, rules } = context
  if (specifier === null)
    return home.packageName === undefined
      ? {}
      : { problem: "only a name that stands in the source can be checked" }
  if (specifier.startsWith(".")) return checkRelative(specifier, context)
  if (specifier.startsWith(SCOPE)) return checkPackage(specifier, kind, context)

  if (isBuiltin(specifier)) {
    const { browser, onNode = {} } = rules.packages[home.packageName ?? ""] ?? {}
    return browser && !home.forTests && !((home.pathInSrc ?? "") in onNode)
      ? {
          problem: `${home.packageName} runs in browsers too, and imports nothing that only Node has`,
        }
      : {}
  }
  // An absolute path or a URL, which holds on one machine only.
  if (/^(\/|[a-z]+:)/.test(specifier)) return { problem: "imports are relative, or name a package" }
  return { problem: checkDeclared(specifier, kind, context) }
}
