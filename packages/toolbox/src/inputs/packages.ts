import { readFile, realpath } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { z } from "zod"
import type { InputPart } from "./input.ts"

/** A package that npm installed. */
export interface InstalledPackage {
  readonly name: string
  readonly version: string
  readonly directory: string
  readonly dependencies: readonly string[]
  /** Dependencies that npm leaves out where they are not for this machine. */
  readonly optionalDependencies: readonly string[]
}

const PackageJson = z.object({
  version: z.string().min(1),
  dependencies: z.record(z.string(), z.string()).default({}),
  optionalDependencies: z.record(z.string(), z.string()).default({}),
})

/** Finds a package as Node does from a file in `from`: in the nearest `node_modules` that has it. */
export const findPackage = async (
  name: string,
  from: string,
): Promise<InstalledPackage | undefined> => {
  for (let place = from; ; place = dirname(place)) {
    const found = await readPackage(name, join(place, "node_modules", name))
    if (found !== undefined) return found
    if (place === dirname(place)) return undefined
  }
}

/** Like `findPackage`, for a package that an entry cannot do without. */
export const needPackage = async (
  entry: string,
  name: string,
  from: string,
): Promise<InstalledPackage> => {
  const found = await findPackage(name, from)
  if (found !== undefined) return found
  throw new BerthError(
    "toolbox.input_missing",
    `the toolbox needs ${entry}, and the package ${name} is not installed`,
    { details: { entry, package: name, from } },
  )
}

/**
 * A package with all its dependencies, as a `node_modules` of its own at `to`. Packages keep their places relative to
 * each other, so each finds the same versions there as where npm put it.
 */
export const packageTree = async (
  entry: string,
  name: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<InputPart[]> => {
  const root = await needPackage(entry, name, from)
  const home = root.directory.slice(0, -name.length)
  const found = new Map<string, InstalledPackage>()
  const open = [root]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next.directory)) continue
    found.set(next.directory, next)
    for (const dependency of next.dependencies)
      open.push(await needPackage(entry, dependency, next.directory))
    for (const dependency of next.optionalDependencies) {
      const installed = await findPackage(dependency, next.directory)
      if (installed !== undefined) open.push(installed)
    }
  }
  return [...found.values()].map(({ directory }) => ({
    kind: "tree",
    from: directory,
    to: join(to, within(home, directory, entry)),
    // The nested packages that are needed have been found one by one.
    without: ["node_modules"],
  }))
}

const within = (home: string, directory: string, entry: string): string => {
  const path = relative(home, directory)
  if (!path.startsWith("..")) return path
  throw new BerthError(
    "toolbox.input_refused",
    `the toolbox cannot carry ${entry}: ${directory} does not lie in ${home}`,
    { details: { entry, path: directory, home } },
  )
}

const readPackage = async (
  name: string,
  directory: string,
): Promise<InstalledPackage | undefined> => {
  let text: string
  try {
    text = await readFile(join(directory, "package.json"), "utf8")
  } catch {
    return undefined
  }
  const { version, dependencies, optionalDependencies } = parse(name, directory, text)
  const optional = Object.keys(optionalDependencies)
  return {
    name,
    version,
    directory: await realpath(directory),
    // Some packages list their optional dependencies among the others as well.
    dependencies: Object.keys(dependencies).filter((each) => !optional.includes(each)),
    optionalDependencies: optional,
  }
}

const parse = (name: string, directory: string, text: string): z.infer<typeof PackageJson> => {
  try {
    return PackageJson.parse(JSON.parse(text))
  } catch (cause) {
    throw new BerthError(
      "toolbox.input_missing",
      `the package ${name} is not installed completely: its package.json cannot be read`,
      { details: { package: name, path: join(directory, "package.json") }, cause },
    )
  }
}
