import { readFile } from "node:fs/promises"
import { describe, expect, it } from "vitest"
import { DIFFERENCES, USER_NAMESPACE_DIFFERENCES } from "../docker/testing/differences.ts"
import { NAMED } from "./attempts.ts"

const document = new URL("../../../../docs/SECURITY.md", import.meta.url)

describe("docs/SECURITY.md", () => {
  it.each(Object.entries(NAMED))("has a row for each attempt: %s", async (heading, attempts) => {
    const rows = attempts.map(
      ({ name, stoppedBy, sees }) => `| ${name} | ${stoppedBy} | ${endsOf(sees)} |`,
    )
    expect(await tableBelow(heading)).toEqual(rows)
  })

  it.each([
    ["Where a Docker sandbox differs", DIFFERENCES],
    ["Where one of an engine with user namespaces differs", USER_NAMESPACE_DIFFERENCES],
  ])("has a row for each difference: %s", async (heading, differences) => {
    const rows = Object.entries(differences).map(
      ([name, { why, sees }]) => `| ${name} | ${why} | ${endsOf(sees) || "not tried"} |`,
    )
    expect(await tableBelow(heading)).toEqual(rows)
    const names = Object.values(NAMED).flatMap((attempts) => attempts.map(({ name }) => name))
    expect(names).toEqual(expect.arrayContaining(Object.keys(differences)))
  })

  it("names no attempt twice", () => {
    const names = Object.values(NAMED).flatMap((attempts) => attempts.map(({ name }) => name))
    expect(new Set(names).size).toBe(names.length)
  })
})

const endsOf = (sees: readonly string[]): string => sees.map((end) => `\`${end}\``).join(", ")

/** The rows of the table that follows a heading, without its head. */
const tableBelow = async (heading: string): Promise<string[]> => {
  const text = await readFile(document, "utf8")
  const [, below = ""] = text.split(`### ${heading}\n`)
  const lines = below.split("\n").slice(1)
  const length = lines.findIndex((line) => !line.startsWith("|"))
  return lines.slice(2, length)
}
