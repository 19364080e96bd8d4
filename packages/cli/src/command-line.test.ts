import { Command } from "commander"
import { expect, it } from "vitest"
import { commandLineOf } from "./command-line.ts"

const parse = (...words: string[]) => {
  const command = new Command("exec").option("--user <user>").passThroughOptions()
  return { line: commandLineOf(command, words), options: command.opts() }
}

it.each([
  [["ls", "-l"], ["ls", "-l"], {}],
  [["--", "ls", "-l"], ["ls", "-l"], {}],
  [["--", "-odd", "--", "x"], ["-odd", "--", "x"], {}],
  [["--user", "root", "--", "ls", "--user"], ["ls", "--user"], { user: "root" }],
  [["--user", "root", "ls", "--help"], ["ls", "--help"], { user: "root" }],
  [["--user", "root"], [], { user: "root" }],
  [[], [], {}],
])("the words %j after a sandbox are the command %j", (words, line, options) => {
  expect(parse(...words)).toEqual({ line, options })
})

it("an unknown option is not taken for a command", () => {
  expect(() => parse("--usr", "root", "--", "ls")).toThrow("unknown option '--usr'")
})
