import path from "node:path"
import { type Context, list, type Verdict, WHERE } from "./context.ts"
import { homeOf, isTest } from "./home.ts"
import { allowedFor, mayImport, placeOf } from "./places.ts"
import { isSource } from "./tree.ts"

/** Checks that an import within the package stays inside, and follows the directions between places. */
export function checkRelative(specifier: string, { file, home, rules, tree }: Context): Verdict {
  const target = path.posix.join(path.posix.dirname(file), specifier)
  const to = homeOf(target, rules)
  if (!target.startsWith(`${home.folder}/`))
    return { problem: `relative imports stay in ${home.folder}; name another package instead` }
  if (path.posix.extname(target) === "")
    return { problem: "a relative import names the file's ending" }
  if (!isSource(target)) return {}
  if (!tree.has(target)) return { problem: `there is no ${target}` }
  if (home.pathInSrc !== undefined && to.pathInSrc === undefined)
    return { problem: `source imports stay in ${home.folder}/src` }
  if (isTest(target)) return { target, problem: "nothing imports a test" }
  if (home.forTests) return { target }
  if (to.forTests) return { target, problem: "only tests import what is for tests" }

  const places = rules.packages[home.packageName ?? ""]?.places
  if (places === undefined || places === "flat") return { target }
  const from = placeOf(home.pathInSrc ?? "", places)
  const there = placeOf(to.pathInSrc ?? "", places)
  // A place without a row is reported once, for its file.
  if (from.row === undefined || mayImport(from, there, places)) return { target }
  const allowed = list([from.name, ...allowedFor(from, places)])
  return {
    target,
    problem: `${there.name} is not for ${from.name}, which may import: ${allowed} (${WHERE})`,
  }
}
