import { readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { scanImports } from "./imports/scan.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const DOCUMENT = "docs/design/prompt.md"

interface Step {
  readonly file: string
  readonly name: string
  /** The file that joins this step with the one before it. */
  readonly joinedBy: string | undefined
}

/** The parts of the walk, each within one process. */
const parts: readonly { readonly title: string; readonly steps: readonly Step[] }[] = readFileSync(
  path.join(root, DOCUMENT),
  "utf8",
)
  .split(/^## /m)
  .slice(1)
  .map((text) => ({
    title: text.slice(0, text.indexOf("\n")),
    steps: [
      ...text.matchAll(
        /^\d+\. `([^`]+)` `([^`]+)`:(?:(?!^\d+\. )[\s\S])*?(?:Joined by `([^`]+)`\.)?$/gm,
      ),
    ].map(([, file = "", name = "", joinedBy]) => ({ file, name, joinedBy })),
  }))

const read = (file: string): string => readFileSync(path.join(root, file), "utf8")

/** The files of this project that a file imports. */
const importsOf = (file: string): string[] =>
  scanImports(file, read(file)).flatMap(({ specifier }) => {
    if (specifier === null) return []
    if (specifier.startsWith(".")) return [path.posix.join(path.posix.dirname(file), specifier)]
    const [, name, rest] = /^@berth\/([^/]+)\/(.+)$/.exec(specifier) ?? []
    return name === undefined ? [] : [`packages/${name}/src/${rest}.ts`]
  })

/** Whether a file imports another, directly or through one in between. */
const reaches = (from: string, to: string): boolean => {
  const direct = importsOf(from)
  return from === to || direct.includes(to) || direct.some((each) => importsOf(each).includes(to))
}

const areJoined = (one: Step, { file, joinedBy }: Step): boolean =>
  joinedBy === undefined
    ? reaches(one.file, file) || reaches(file, one.file)
    : reaches(joinedBy, one.file) && reaches(joinedBy, file)

describe("the walk of a prompt through the files", () => {
  it("is read whole from the document", () => {
    const numbered = read(DOCUMENT).match(/^\d+\. /gm)?.length
    expect(parts.flatMap(({ steps }) => steps)).toHaveLength(numbered ?? 0)
    expect(numbered).toBeGreaterThan(30)
  })

  it.each(parts)("names things that stand in its files: $title", ({ steps }) => {
    const missing = steps.filter(({ file, name }) => !new RegExp(`\\b${name}\\b`).test(read(file)))
    expect(missing).toEqual([])
  })

  it.each(parts)("follows the imports: $title", ({ steps }) => {
    const apart = steps.slice(1).filter((step, place) => !areJoined(steps[place] as Step, step))
    expect(apart).toEqual([])
  })

  it("would notice two files that do not meet", () => {
    const [client] = parts[0]?.steps ?? []
    const [supervisor] = parts[3]?.steps ?? []
    expect(areJoined(client as Step, supervisor as Step)).toBe(false)
  })
})
