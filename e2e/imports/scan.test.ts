import { describe, expect, it } from "vitest"
import { scanImports } from "./scan.ts"

const scan = (source: string) =>
  scanImports("file.ts", source).map(({ kind, specifier }) => [kind, specifier])

describe("scanImports", () => {
  it.each([
    ['import a from "x"', "static"],
    ['import { type A, b } from "x"', "static"],
    // With verbatimModuleSyntax this stays behind as `import "x"`.
    ['import { type A } from "x"', "static"],
    ['import "x"', "static"],
    ['import * as a from "x"', "static"],
    ['export { a } from "x"', "static"],
    ['export * from "x"', "static"],
    ['export * as a from "x"', "static"],
    ['import type { A } from "x"', "type"],
    ['export type { A } from "x"', "type"],
    ['export type * from "x"', "type"],
    ['type A = import("x").A', "type"],
    ['type A = typeof import("x")', "type"],
    ['let a: Promise<import("x").A<string>[]>', "type"],
    ['await import("x")', "onDemand"],
    ["await import(`x`)", "onDemand"],
    ['const load = async () => (await import("x")).a', "onDemand"],
    ['require("x")', "static"],
    ['require.resolve("x")', "static"],
    ['import a = require("x")', "static"],
    ['import.meta.resolve("x")', "static"],
    ['createRequire(import.meta.url)("x")', "static"],
    ['const load = createRequire(import.meta.url); load("x")', "static"],
  ])("finds %s", (source, kind) => {
    expect(scan(source)).toEqual([[kind, "x"]])
  })

  it("ignores what only looks like an import", () => {
    const source = [
      '// import "comment"',
      'const text = `import "template"`, other = \'require("string")\'',
      'export { text }; Promise.resolve("promise"); object.require("method")',
    ].join("\n")
    expect(scan(source)).toEqual([])
  })

  it("reports a computed name as unknown", () => {
    expect(scan("import(name); require('./' + name)")).toEqual([
      ["onDemand", null],
      ["static", null],
    ])
  })

  it("gives the line of each import, in the order of the file", () => {
    const source = 'export * from "a"\n\nimport "b"\ntype C = import("c").C\n'
    expect(scanImports("file.ts", source).map(({ line }) => line)).toEqual([1, 3, 4])
  })

  it("fails where a file does not parse", () => {
    expect(() => scan("import { from")).toThrow(/file\.ts does not parse/)
  })

  it("reads files with JSX", () => {
    const source = 'import { a } from "x"\nexport const B = () => <p>import "y"</p>'
    expect(scanImports("file.tsx", source).map(({ specifier }) => specifier)).toEqual(["x"])
  })
})
