import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { checkImports } from "./check.ts"
import { RULES, SCOPE } from "./rules.ts"
import { readTree } from "./tree.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const tree = await readTree(root, ["packages", ...RULES.outside])

/** Returns the problems of these files, with the real manifests beside them. */
const breach = (files: Readonly<Record<string, string>>) => {
  const manifests = [...tree].filter(([file]) => file.endsWith("package.json"))
  return checkImports(new Map([...manifests, ...Object.entries(files)]), RULES)
}

describe("the imports of this project", () => {
  it("keep the directions of the architecture", () => {
    expect(checkImports(tree, RULES)).toEqual([])
  })

  it("are read from sources and manifests, and not from what was built", () => {
    const files = [...tree.keys()]
    expect(files).toContain("packages/protocol/src/errors.ts")
    expect(files).toContain("packages/protocol/package.json")
    expect(files).toContain("e2e/imports/project.test.ts")
    expect(files.filter((file) => /\/(dist|node_modules)\//.test(file))).toEqual([])
  })

  it.each([
    ["protocol", "@berth/server/main"],
    ["protocol", "@berth/sdk/client"],
    ["local", "@berth/server/main"],
    ["sdk", "@berth/server/main"],
    ["sdk", "@berth/local/token"],
    ["server", "@berth/sdk/client"],
    ["server", "@berth/cli/main"],
    ["supervisor", "@berth/server/main"],
    ["supervisor", "@berth/sdk/client"],
    ["supervisor", "@berth/local/token"],
    ["cli", "@berth/supervisor/main"],
    ["backends", "@berth/server/main"],
    ["layers", "@berth/server/main"],
    ["toolbox", "@berth/server/main"],
    ["toolbox", "@berth/layers/open"],
    ["bridge", "@berth/server/main"],
    ["host", "@berth/backends/backend"],
    ["host", "@berth/server/main"],
    ["cli", "@berth/server/store/open"],
  ])("would not pass with an import from %s to %s", (name, specifier) => {
    const target = specifier.replace(/^@berth\/([^/]+)/, "packages/$1/src")
    const file = `packages/${name}/src/breach.test.ts`
    const files = { [`${target}.ts`]: "", [file]: `import type {} from "${specifier}"` }
    expect(breach(files)).toEqual([
      expect.stringMatching(new RegExp(`^${file}:1 imports "${specifier}": .* is not for ${name}`)),
    ])
  })

  it.each([
    ["server", "api", "main"],
    ["server", "sessions", "api"],
    ["server", "sandboxes", "sessions"],
    ["server", "events", "sessions"],
    ["server", "store", "events"],
    ["server", "store", "api"],
    ["local", "owned", "config"],
    ["server", "logging", "store"],
    ["server", "doctor", "store"],
    ["backends", "docker", "embedded"],
    ["backends", "embedded", "docker"],
    ["supervisor", "processes", "boot"],
    ["supervisor", "boot", "bridge"],
    ["supervisor", "bridge", "boot"],
    ["supervisor", "agents", "bridge"],
    ["supervisor", "agents/opencode", "agents/acp"],
    ["supervisor", "processes", "agents"],
  ])("would not pass with an import in %s from %s to %s", (name, from, to) => {
    const up = "../".repeat(from.split("/").length)
    const file = `packages/${name}/src/${from}/breach.ts`
    const target = to === "main" ? "main.ts" : `${to}/target.ts`
    const files = { [`packages/${name}/src/${target}`]: "", [file]: `import "${up}${target}"` }
    expect(breach(files)).toEqual([
      expect.stringContaining(`${file}:1 imports "${up}${target}": ${to} is not for ${from}`),
    ])
  })

  it.each([
    ["events", "@berth/bridge/bridge"],
    ["sessions", "@berth/bridge/bridge"],
  ])("would not pass with an import from the server's %s to %s", (place, specifier) => {
    const target = specifier.replace(/^@berth\/([^/]+)/, "packages/$1/src")
    const file = `packages/server/src/${place}/breach.ts`
    const files = { [`${target}.ts`]: "", [file]: `import "${specifier}"` }
    expect(breach(files)).toEqual([expect.stringContaining(` is not for server/${place}, `)])
  })

  it("would not pass with a source that imports what is for another package's tests", () => {
    const files = {
      "packages/host/src/testing/stubborn.ts": "",
      "packages/layers/src/breach.ts": 'import "@berth/host/testing/stubborn"',
    }
    expect(breach(files)).toEqual([expect.stringContaining("only tests import what is for tests")])
  })

  it("let only the SDK's file for Node look for a server, and no file for browsers import that file", () => {
    const files = {
      "packages/local/src/token.ts": "",
      "packages/sdk/src/node.ts": 'import "@berth/local/token"',
      "packages/sdk/src/files.ts": 'import "./node.ts"',
    }
    expect(breach(files)).toEqual([
      expect.stringContaining('packages/sdk/src/files.ts:1 imports "./node.ts": node is not for'),
    ])
  })

  it("would not pass with a folder for which there is no rule", () => {
    expect(breach({ "packages/server/src/utils/a.ts": "" })).toEqual([
      expect.stringContaining("no rule for utils"),
    ])
  })
})

describe("the rules", () => {
  const tables = Object.entries(RULES.packages).flatMap(([name, { places }]) =>
    places === "flat" ? [] : [{ name, places }],
  )

  it.each(tables)("of $name speak only of places that have a row", ({ places }) => {
    const rows = Object.keys(places)
    expect(
      Object.values(places)
        .flat()
        .filter((place) => !rows.includes(place) && !place.startsWith(SCOPE)),
    ).toEqual([])
  })

  it.each(tables)("of $name have a direction: no place reaches itself again", ({ places }) => {
    const reach = (place: string, seen = new Set<string>()): Set<string> => {
      for (const next of places[place] ?? []) if (!seen.has(next)) reach(next, seen.add(next))
      return seen
    }
    expect(Object.keys(places).filter((place) => reach(place).has(place))).toEqual([])
  })
})
