import { globSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("..", import.meta.url))
const readJson = (file: string) => JSON.parse(readFileSync(join(root, file), "utf8"))

interface Package {
  readonly dependencies?: Record<string, string>
  readonly optionalDependencies?: Record<string, string>
  readonly devDependencies?: Record<string, string>
  readonly engines?: { readonly node?: string }
}

/** The packages of the lock file by where they are installed; the root and the workspaces by their folder. */
const locked: Record<string, Package> = readJson("package-lock.json").packages

/** Whether the lock file has the package that an import of `name` from `from` would find. */
const isLocked = (name: string, from: string): boolean => {
  if (join(from, "node_modules", name) in locked) return true
  return from !== "" && isLocked(name, from.includes("/") ? dirname(from) : "")
}

const missing = (kind: "dependencies" | "optionalDependencies") =>
  Object.entries(locked).flatMap(([from, entry]) =>
    Object.keys(entry[kind] ?? {})
      .filter((name) => !isLocked(name, from))
      .map((name) => `${name}, for ${from}`),
  )

describe("the lock file", () => {
  it.each(["package.json", ...globSync("packages/*/package.json", { cwd: root })])(
    "asks for the versions that the manifest asks for: %s",
    (file) => {
      const manifest: Package = readJson(file)
      const entry = locked[file === "package.json" ? "" : dirname(file)]
      expect(entry?.dependencies).toEqual(manifest.dependencies)
      expect(entry?.optionalDependencies).toEqual(manifest.optionalDependencies)
      expect(entry?.devDependencies).toEqual(manifest.devDependencies)
      expect(entry?.engines).toEqual(manifest.engines)
    },
  )

  it("names the same versions of Node for this project and each of its packages that names any", () => {
    const ours = Object.keys(locked).filter((place) => !place.includes("node_modules/"))
    const named = ours.flatMap((place) => locked[place]?.engines?.node ?? [])
    expect(named.length).toBeGreaterThan(1)
    expect(new Set(named)).toEqual(new Set([readJson("package.json").engines.node]))
  })

  // `npm ci` refuses a lock file that lacks a package, also one that is for another platform.
  it("has every package that another needs, for every platform", () => {
    expect(missing("dependencies")).toEqual([])
    expect(missing("optionalDependencies")).toEqual([])
  })
})
