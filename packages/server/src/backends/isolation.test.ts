import { readFile } from "node:fs/promises"
import { describe, expect, it } from "vitest"
import { NAMED } from "./testing/attempts.ts"

const document = new URL("../../../../docs/SECURITY.md", import.meta.url)

describe("docs/SECURITY.md", () => {
  it.each(Object.entries(NAMED))("has a row for each attempt: %s", async (heading, attempts) => {
    const rows = attempts.map(
      ({ name, stoppedBy, sees }) =>
        `| ${name} | ${stoppedBy} | ${sees.map((end) => `\`${end}\``).join(", ")} |`,
    )
    expect(await tableBelow(heading)).toEqual(rows)
  })

  it("names no attempt twice", () => {
    const names = Object.values(NAMED).flatMap((attempts) => attempts.map(({ name }) => name))
    expect(new Set(names).size).toBe(names.length)
  })
})

/** The rows of the table that follows a heading, without its head. */
const tableBelow = async (heading: string): Promise<string[]> => {
  const text = await readFile(document, "utf8")
  const [, below = ""] = text.split(`### ${heading}\n`)
  const lines = below.split("\n").slice(1)
  const length = lines.findIndex((line) => !line.startsWith("|"))
  return lines.slice(2, length)
}
