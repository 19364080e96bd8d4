import { ERRORS } from "@berth/protocol/errors"
import { Command } from "commander"
import { describe, expect, it } from "vitest"
import type { CommandContext } from "./command.ts"
import { COMMANDS } from "./commands.ts"

const silent = (): void => {}
const CONTEXT = {
  out: silent,
  err: silent,
  fail: silent,
  exitWith: silent,
} as unknown as CommandContext

/** The command line as it is defined, with every command loaded. */
const program = new Command("berth")
for (const { name, load } of COMMANDS) await (await load()).define(program.command(name), CONTEXT)

/** The texts between backticks in the hints of the error table, with the codes of their errors. */
const QUOTED = Object.entries(ERRORS).flatMap(([code, { hint }]) =>
  [...hint.matchAll(/`([^`]*)`/g)].map(([, text = ""]) => ({ code, text })),
)
const NAMED = QUOTED.filter(({ text }) => /^berth [a-z]/.test(text))
const FLAGS = QUOTED.filter(({ text }) => text.startsWith("--"))

/** A word in capitals stands for a value of the reader's. */
const isPlaceholder = (word: string): boolean => /^[A-Z]+$/.test(word)

const flagsOf = (command: Command): (string | undefined)[] => [
  "--help",
  ...command.options.flatMap(({ long, short }) => [long, short]),
]

/** Returns the first word of a command line that does not exist, or undefined. */
const missingIn = (line: string): string | undefined => {
  let command = program
  for (const word of line.split(" ").slice(1)) {
    if (isPlaceholder(word)) continue
    const next = command.commands.find((each) => each.name() === word)
    if (next !== undefined) command = next
    else if (word.startsWith("-") ? !flagsOf(command).includes(word) : command.commands.length > 0)
      return word
  }
  return undefined
}

describe("the hints of the error table", () => {
  it.each(NAMED)("name a command that exists: $text ($code)", ({ text }) => {
    expect(missingIn(text)).toBeUndefined()
  })

  it.each(FLAGS)("name a flag that some command has: $text ($code)", ({ text }) => {
    const [flag = ""] = text.split(" ")
    expect(program.commands.some((command) => flagsOf(command).includes(flag))).toBe(true)
  })

  it("name no route of the API, and no placeholder for a sandbox or a workspace", () => {
    const wrong = Object.entries(ERRORS).filter(([, { hint }]) =>
      /\b(GET|POST|PUT|DELETE) |\/v1\/|\bSANDBOX\b|\bWORKSPACE\b/.test(hint),
    )
    expect(wrong.map(([code]) => code)).toEqual([])
  })
})
