import { describe, expect, it } from "vitest"
import { checkImports } from "./check.ts"
import type { Rules } from "./rules.ts"

const RULES: Rules = {
  packages: {
    base: { imports: [], browser: true, places: "flat" },
    app: {
      imports: ["base"],
      browser: false,
      places: {
        main: ["api", "engines", "engines/*", "store"],
        api: ["engines", "store"],
        engines: ["store"],
        "engines/*": ["engines", "engines/filter", "store"],
        "engines/filter": [],
        store: [],
      },
    },
    testing: { imports: [], browser: false, places: "flat" },
    tool: {
      imports: ["base"],
      onDemand: ["@berth/app/main"],
      browser: false,
      places: { main: ["commands", "*.ts"], commands: ["*.ts"], "*.ts": [] },
    },
  },
  outside: ["e2e"],
}

const manifest = (dependencies: string[], devDependencies: string[] = []) =>
  JSON.stringify({
    dependencies: Object.fromEntries(dependencies.map((name) => [name, "*"])),
    devDependencies: Object.fromEntries(devDependencies.map((name) => [name, "*"])),
  })

/** A project that keeps every rule. */
const SOUND: Readonly<Record<string, string>> = {
  "package.json": manifest([], ["vitest", "@berth/testing"]),
  "packages/testing/src/requires.ts": 'import "vitest"',
  "packages/base/package.json": manifest(["zod"]),
  "packages/base/src/errors.ts": 'import { z } from "zod"',
  "packages/app/package.json": manifest(["@berth/base", "fastify"], ["types-only"]),
  "packages/app/src/main.ts": 'import "./api/serve.ts"\nimport "./engines/docker/engine.ts"',
  "packages/app/src/api/serve.ts":
    'import "fastify"\nimport "../store/open.ts"\nimport "../engines/engine.ts"',
  "packages/app/src/engines/engine.ts": 'import type { E } from "@berth/base/errors"',
  "packages/app/src/engines/docker/engine.ts": 'import type { Engine } from "../engine.ts"',
  "packages/app/src/engines/embedded/engine.ts":
    'import type { Engine } from "../engine.ts"\nimport "../filter/rules.ts"',
  "packages/app/src/engines/filter/rules.ts": "",
  "packages/app/src/store/open.ts": 'import "node:fs"\nimport type { T } from "types-only"',
  "packages/app/src/testing/server.ts": 'import "../main.ts"',
  "packages/tool/package.json": manifest(["@berth/base", "@berth/app"]),
  "packages/tool/src/main.ts":
    'import type { Server } from "@berth/app/main"\nawait import("@berth/app/main")',
  "e2e/serve.test.ts": 'import "vitest"\nimport "@berth/app/api/serve"\nawait import(name)',
}

/** Returns the problems of the sound project when these files are added to it or replace files of it. */
const check = (files: Readonly<Record<string, string>> = {}) =>
  checkImports(new Map(Object.entries({ ...SOUND, ...files })), RULES)

describe("checkImports", () => {
  it("finds nothing in a project that keeps every rule", () => {
    expect(check()).toEqual([])
  })

  describe("between packages", () => {
    it.each([
      'import "@berth/app/main"',
      'import type { A } from "@berth/app/main"',
      'export * from "@berth/app/main"',
      'type A = import("@berth/app/main").A',
      'await import("@berth/app/main")',
      'require("@berth/app/main")',
    ])("refuses %s against the direction, and lists what is allowed", (source) => {
      expect(check({ "packages/base/src/errors.ts": `\n${source}` })).toContain(
        'packages/base/src/errors.ts:2 imports "@berth/app/main": app is not for base, ' +
          "which may import: nothing (e2e/imports/rules.ts)",
      )
    })

    it("refuses such an import to tests as well", () => {
      const problems = check({ "packages/base/src/a.test.ts": 'import "@berth/app/main"' })
      expect(problems).toEqual([expect.stringContaining("app is not for base")])
    })

    it("allows the exception only for its one module, loaded on demand", () => {
      expect(check({ "packages/tool/src/a.ts": 'import "@berth/app/main"' })).toEqual([
        'packages/tool/src/a.ts:1 imports "@berth/app/main": loaded on demand only: by import(), or by import type',
      ])
      expect(check({ "packages/tool/src/a.ts": 'await import("@berth/app/store/open")' })).toEqual([
        'packages/tool/src/a.ts:1 imports "@berth/app/store/open": app is not for tool, ' +
          "which may import: @berth/base, @berth/app/main by import() (e2e/imports/rules.ts)",
      ])
    })

    it("refuses to reach into another package by path", () => {
      expect(check({ "packages/app/src/main.ts": 'import "../../base/src/errors.ts"' })).toEqual([
        expect.stringContaining("relative imports stay in packages/app"),
      ])
      expect(check({ "e2e/a.test.ts": 'import "../packages/base/src/errors.ts"' })).toEqual([
        expect.stringContaining("relative imports stay in e2e"),
      ])
    })

    it("refuses a package its own name", () => {
      expect(check({ "packages/app/src/main.ts": 'import "@berth/app/store/open"' })).toEqual([
        expect.stringContaining("a package imports its own files by relative path"),
      ])
    })

    it("refuses a manifest that declares what may not be imported", () => {
      expect(check({ "packages/base/package.json": manifest(["zod", "@berth/app"]) })).toEqual([
        "packages/base/package.json declares @berth/app: base may import: nothing (e2e/imports/rules.ts)",
      ])
    })

    it("asks for a rule for a new package", () => {
      expect(check({ "packages/new/src/a.ts": "" })).toEqual([
        "packages/new/src/a.ts: no rule for the package new; add one in e2e/imports/rules.ts",
      ])
    })
  })

  describe("between the places of a package", () => {
    it("holds a folder with a row of its own to that row", () => {
      const problems = check({
        "packages/app/src/engines/filter/rules.ts": 'import "../engine.ts"',
        "packages/app/src/api/serve.ts": 'import "../engines/filter/rules.ts"',
      })
      expect(problems).toEqual([
        expect.stringContaining("engines/filter is not for api"),
        expect.stringContaining("engines is not for engines/filter"),
      ])
    })

    it.each([
      'import "../api/serve.ts"',
      'import type { A } from "../api/serve.ts"',
      'export { a } from "../api/serve.ts"',
      'await import("../api/serve.ts")',
    ])("refuses %s against the direction, and lists what is allowed", (source) => {
      expect(check({ "packages/app/src/engines/a.ts": source })).toEqual([
        'packages/app/src/engines/a.ts:1 imports "../api/serve.ts": api is not for engines, ' +
          "which may import: engines, store (e2e/imports/rules.ts)",
      ])
    })

    it("refuses a folder below a place that may be imported", () => {
      expect(
        check({ "packages/app/src/api/a.ts": 'import "../engines/docker/engine.ts"' }),
      ).toEqual([expect.stringContaining("engines/docker is not for api")])
    })

    it("refuses imports between siblings", () => {
      const file = "packages/app/src/engines/docker/a.ts"
      expect(check({ [file]: 'import "../embedded/engine.ts"' })).toEqual([
        `${file}:1 imports "../embedded/engine.ts": engines/embedded is not for engines/docker, ` +
          "which may import: engines/docker, engines, engines/filter, store (e2e/imports/rules.ts)",
      ])
    })

    it("refuses imports of siblings by the files that they share", () => {
      expect(check({ "packages/app/src/engines/a.ts": 'import "./docker/engine.ts"' })).toEqual([
        expect.stringContaining("engines/docker is not for engines"),
      ])
    })

    it("takes the files without a row of their own for one place, where the table says so", () => {
      const loose = {
        "packages/tool/src/loose.ts": 'import "./other.ts"',
        "packages/tool/src/other.ts": "",
      }
      const source = 'import "../loose.ts"'
      expect(check({ ...loose, "packages/tool/src/commands/a.ts": source })).toEqual([])
      const file = "packages/tool/src/other.ts"
      expect(
        check({
          ...loose,
          "packages/tool/src/commands/a.ts": "",
          [file]: 'import "./commands/a.ts"',
        }),
      ).toEqual([expect.stringContaining("commands is not for *.ts, which may import: *.ts")])
      expect(check({ "packages/tool/src/other/a.ts": "" })).toEqual([
        expect.stringContaining("no rule for other"),
      ])
    })

    it("refuses every import of main", () => {
      expect(check({ "packages/app/src/api/a.ts": 'import "../main.ts"' })).toEqual([
        expect.stringContaining("main is not for api"),
      ])
    })

    it("asks for a rule for a new folder, and for a new file in src", () => {
      expect(check({ "packages/app/src/new/a.ts": "", "packages/app/src/clock.ts": "" })).toEqual([
        'packages/app/src/new/a.ts: no rule for new; add a row to the "places" of app in e2e/imports/rules.ts',
        'packages/app/src/clock.ts: no rule for clock; add a row to the "places" of app in e2e/imports/rules.ts',
      ])
      expect(check({ "packages/base/src/new/a.ts": "" })).toEqual([
        'packages/base/src/new/a.ts: no rule for the folder new; base is flat: give it "places" in e2e/imports/rules.ts',
      ])
    })
  })

  describe("tests", () => {
    it("may import every place of their package, and the tools of the root", () => {
      const source = 'import "vitest"\nimport "../main.ts"\nimport "../testing/server.ts"'
      expect(check({ "packages/app/src/store/open.test.ts": source })).toEqual([])
    })

    it("are imported by no other file", () => {
      const files = { "packages/app/src/store/a.test.ts": "" }
      expect(check({ ...files, "packages/app/src/store/a.ts": 'import "./a.test.ts"' })).toEqual([
        expect.stringContaining("nothing imports a test"),
      ])
    })

    it("share suites in testing/, which may import what tests may import", () => {
      const contract = {
        "packages/app/src/engines/testing/contract.ts": 'import "vitest"\nimport "../../main.ts"',
      }
      const source = 'import "../testing/contract.ts"'
      expect(check({ ...contract, "packages/app/src/engines/docker/a.test.ts": source })).toEqual(
        [],
      )
      expect(check({ ...contract, "packages/app/src/engines/docker/a.ts": source })).toEqual([
        expect.stringContaining("only tests import what is for tests"),
      ])
    })

    it("keep testing/ to themselves", () => {
      expect(
        check({ "packages/app/src/api/a.ts": 'import "../testing/server.ts"' }),
      ).toContainEqual(expect.stringContaining("only tests import what is for tests"))
    })

    it("share the package testing, which no other code may import", () => {
      const source = 'import "@berth/testing/requires"'
      expect(check({ "packages/app/src/store/a.test.ts": source })).toEqual([])
      expect(check({ "packages/app/src/testing/server.ts": source })).toEqual([])
      expect(check({ "e2e/a.test.ts": source })).toEqual([])
      expect(check({ "packages/app/src/store/a.ts": source })).toEqual([
        expect.stringContaining("only tests import it"),
      ])
    })
  })

  describe("dependencies", () => {
    it("must be declared by the package that imports them, not by another", () => {
      expect(check({ "packages/app/src/store/a.ts": 'import "zod/v4"' })).toEqual([
        'packages/app/src/store/a.ts:1 imports "zod/v4": zod is not among the dependencies in packages/app/package.json',
      ])
      expect(check({ "e2e/a.test.ts": 'import "zod"' })).toEqual([
        'e2e/a.test.ts:1 imports "zod": zod is not among the dependencies in package.json',
      ])
    })

    it("must be there at run time: development dependencies serve types and tests only", () => {
      expect(check({ "packages/app/src/store/a.ts": 'import "types-only"' })).toHaveLength(1)
      expect(check({ "packages/app/src/store/a.ts": 'import "vitest"' })).toHaveLength(1)
      expect(check({ "packages/app/src/store/a.test.ts": 'import "types-only"' })).toEqual([])
    })

    it("must be declared for packages of this project too", () => {
      const files = { "packages/app/package.json": manifest(["fastify"], ["types-only"]) }
      expect(check(files)).toEqual([
        expect.stringContaining("@berth/base is not among the dependencies"),
      ])
    })

    it("never include Node's own modules where the code runs in browsers, too", () => {
      expect(check({ "packages/base/src/a.ts": 'import "node:fs"' })).toEqual([
        expect.stringContaining("base runs in browsers too"),
      ])
      expect(check({ "packages/base/src/a.test.ts": 'import "node:fs"' })).toEqual([])
    })
  })

  describe("files", () => {
    it("do not import each other in a circle, not even for types, not even across packages", () => {
      expect(
        check({
          "packages/app/src/store/a.ts": 'import "./b.ts"',
          "packages/app/src/store/b.ts": 'import type { C } from "./c.ts"',
          "packages/app/src/store/c.ts": 'await import("./a.ts")',
        }),
      ).toEqual([
        "import cycle: packages/app/src/store/a.ts → packages/app/src/store/b.ts → " +
          "packages/app/src/store/c.ts → packages/app/src/store/a.ts",
      ])
      expect(
        check({ "packages/base/src/errors.ts": 'import "@berth/app/engines/engine"' }),
      ).toContainEqual(expect.stringMatching(/^import cycle: .*base.*app.*base/))
      expect(check({ "packages/base/src/a.ts": 'import "./a.ts"' })).toEqual([
        "import cycle: packages/base/src/a.ts → packages/base/src/a.ts",
      ])
    })

    it("are reported for each circle, and not for two ways to the same file", () => {
      const two = {
        "packages/base/src/a.ts": 'import "./b.ts"',
        "packages/base/src/b.ts": 'import "./a.ts"',
        "packages/base/src/c.ts": 'import "./d.ts"\nimport "./a.ts"',
        "packages/base/src/d.ts": 'import "./c.ts"',
      }
      expect(check(two)).toHaveLength(2)
      const diamond = {
        "packages/base/src/a.ts": 'import "./b.ts"\nimport "./c.ts"',
        "packages/base/src/b.ts": 'import "./d.ts"',
        "packages/base/src/c.ts": 'import "./d.ts"',
        "packages/base/src/d.ts": "",
      }
      expect(check(diamond)).toEqual([])
    })

    it("are never called index", () => {
      expect(check({ "packages/app/src/store/index.ts": "" })).toEqual([
        expect.stringContaining("packages/app/src/store/index.ts: no index files"),
      ])
    })

    it("are imported by their full name, and exist", () => {
      expect(check({ "packages/app/src/store/a.ts": 'import "./open"' })).toHaveLength(1)
      expect(check({ "packages/app/src/store/a.ts": 'import "./gone.ts"' })).toHaveLength(1)
      expect(check({ "packages/app/src/store/a.ts": 'import "@berth/base/gone"' })).toHaveLength(1)
    })

    it("are not imported by absolute path or URL", () => {
      for (const specifier of ["/srv/app/store/open.ts", "file:///srv/app/store/open.ts"])
        expect(check({ "packages/app/src/store/a.ts": `import "${specifier}"` })).toEqual([
          expect.stringContaining("imports are relative, or name a package"),
        ])
    })

    it("in packages import only names that stand in the source", () => {
      expect(check({ "packages/app/src/store/a.ts": "await import(name)" })).toEqual([
        "packages/app/src/store/a.ts:1 imports a computed name: only a name that stands in the source can be checked",
      ])
    })
  })
})
