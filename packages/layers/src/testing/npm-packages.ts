import { execFileSync } from "node:child_process"
import { cpSync, rmSync } from "node:fs"
import { findPackageJSON } from "node:module"
import { dirname, join } from "node:path"
import { makeReadable, writeFiles } from "./files.ts"
import { makeRoot } from "./store.ts"

export interface NpmPackage {
  readonly name: string
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly tarball: string
}

/**
 * The packages p and q, which p needs, in two versions. The second removes and adds directories and, if `turning`, has
 * a directory where the first has a file.
 */
export const makePackages = (turning: boolean): NpmPackage[] => {
  const root = makeRoot()
  const packages = ["1", "2"].flatMap((major) =>
    ["p", "q"].map((name) => {
      const version = `${major}.0.0`
      const dependencies: Record<string, string> = name === "p" ? { q: version } : {}
      const tarball = join(root, `${name}-${version}.tgz`)
      writeFiles(join(root, "package"), {
        "package.json": JSON.stringify({ name, version, dependencies }),
        "index.js": `module.exports = ${major}\n`,
        [`lib/only${major}/x.js`]: "",
        [turning && major === "2" ? "turns/in.js" : "turns"]: "",
      })
      execFileSync("tar", ["-C", root, "-czf", tarball, "package"])
      rmSync(join(root, "package"), { recursive: true })
      return { name, version, dependencies, tarball }
    }),
  )
  makeReadable(root)
  return packages
}

/** A program from the project's dependencies, where the agent can read it. */
export const installedTool = (name: string, program: string): string => {
  const manifest = findPackageJSON(name, import.meta.url)
  if (manifest === undefined) throw new Error(`${name} is not installed`)
  const root = makeRoot()
  cpSync(dirname(manifest), root, { recursive: true })
  makeReadable(root)
  return join(root, program)
}
