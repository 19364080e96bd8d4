import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { variablesOf } from "./variables.ts"

const fileOf = (content: string): string => {
  const directory = mkdtempSync(join(tmpdir(), "berth-env-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, "env")
  writeFileSync(file, content)
  return file
}

it("takes a value from the command line, or by name from the caller's environment", () => {
  const own = { TOKEN: "secret", OTHER: "no" }
  expect(variablesOf({ env: ["A=b=c", "TOKEN", "EMPTY="] }, own)).toEqual({
    A: "b=c",
    TOKEN: "secret",
    EMPTY: "",
  })
  expect(variablesOf({}, own)).toEqual({})
})

it("takes variables from files, and lets --env win", () => {
  const first = fileOf("# a comment\n\nA=1\nexport B='two words'\r\nC=\"x\"\nTOKEN\nD=it's\n")
  const second = fileOf("A=2\n")
  expect(variablesOf({ env: ["C=3"], envFile: [first, second] }, { TOKEN: "secret" })).toEqual({
    A: "2",
    B: "two words",
    C: "3",
    TOKEN: "secret",
    D: "it's",
  })
})

it("refuses a malformed variable without showing its value", () => {
  const file = fileOf("GOOD=1\nmy secret=hunter2\n")
  const failure = (given: Parameters<typeof variablesOf>[0]) => {
    try {
      return variablesOf(given, {})
    } catch (thrown) {
      return (thrown as Error).message
    }
  }
  expect(failure({ env: ["UNSET"] })).toMatch(/^--env UNSET takes .* not set$/)
  expect(failure({ env: ["=hunter2"] })).toMatch(/^--env takes NAME or NAME=VALUE/)
  expect(failure({ envFile: [file] })).toMatch(new RegExp(`^line 2 of ${file} takes NAME`))
  expect(failure({ envFile: ["/nowhere/env"] })).toBe(
    "--env-file /nowhere/env cannot be read: ENOENT",
  )
  for (const given of [{ env: ["=hunter2"] }, { envFile: [file] }])
    expect(failure(given)).not.toContain("hunter2")
})
