import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { put } from "../testing/fake-inputs.ts"
import { makeDirectory, openForTest } from "../testing/open-for-test.ts"
import { findPackage, packageTree } from "./packages.ts"

/** Installs two packages of one name, of which the nearer one is for `outer` only. */
const install = () => {
  const root = makeDirectory()
  const modules = join(root, "node_modules")
  const add = (path: string, manifest: object) =>
    put(join(modules, path, "package.json"), JSON.stringify(manifest))
  add("outer", {
    version: "1.0.0",
    dependencies: { shared: "1", "@scope/plain": "1" },
    optionalDependencies: { "for-another-machine": "1", native: "1" },
  })
  add("outer/node_modules/shared", { version: "1.0.0" })
  add("shared", { version: "2.0.0" })
  add("native", { version: "3.0.0", dependencies: { shared: "2" } })
  add("@scope/plain", { version: "4.0.0", dependencies: { outer: "1" } })
  add("stranger", { version: "5.0.0" })
  return { root, modules }
}

describe("installed packages", () => {
  it("are found as Node finds them: in the nearest node_modules above", async () => {
    const { root, modules } = install()
    const versionFrom = async (from: string) => (await findPackage("shared", from))?.version
    const deep = join(root, "packages/server/src")
    mkdirSync(deep, { recursive: true })
    expect(await versionFrom(deep)).toBe("2.0.0")
    expect(await versionFrom(join(modules, "outer"))).toBe("1.0.0")
    expect(await versionFrom(join(modules, "@scope/plain"))).toBe("2.0.0")
    expect(await findPackage("absent", deep)).toBeUndefined()
  })

  it("come with all their dependencies and nothing else, each at its place", async () => {
    const { root, modules } = install()
    const parts = await packageTree("agent", "outer", { from: root, to: "agents/a/node_modules" })
    const places = parts.map((part) => [part.kind === "tree" && part.from, part.to])
    expect(places.sort()).toEqual(
      ["@scope/plain", "native", "outer", "outer/node_modules/shared", "shared"].map((path) => [
        join(modules, path),
        join("agents/a/node_modules", path),
      ]),
    )
    const { toolboxes, signal } = openForTest()
    const main = "agents/a/node_modules/outer/package.json"
    const input = { name: "agent", version: "1", main, parts }
    const { manifest } = await toolboxes.build([input], { signal })
    expect(manifest.files.map(({ path }) => path)).toEqual([
      "agents/a/node_modules/@scope/plain/package.json",
      "agents/a/node_modules/native/package.json",
      "agents/a/node_modules/outer/node_modules/shared/package.json",
      "agents/a/node_modules/outer/package.json",
      "agents/a/node_modules/shared/package.json",
    ])
  })

  it("[R2.6] are named when one of them is missing, however deep", async () => {
    const { root, modules } = install()
    rmSync(join(modules, "shared"), { recursive: true })
    await expect(packageTree("agent", "outer", { from: root, to: "x" })).rejects.toMatchObject({
      code: "toolbox.input_missing",
      message: "the toolbox needs agent, and the package shared is not installed",
      details: { entry: "agent", package: "shared", from: join(modules, "native") },
    })
  })

  it("[R2.6] are named when they are there only in part", async () => {
    const { root, modules } = install()
    writeFileSync(join(modules, "native/package.json"), "")
    await expect(packageTree("agent", "outer", { from: root, to: "x" })).rejects.toMatchObject({
      code: "toolbox.input_missing",
      details: { package: "native", path: join(modules, "native/package.json") },
    })
  })
})
