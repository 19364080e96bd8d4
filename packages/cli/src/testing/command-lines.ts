import { Command } from "commander"
import type { CommandContext } from "../command.ts"
import { COMMANDS } from "../commands.ts"

const silent = (): void => {}
const CONTEXT = {
  out: silent,
  err: silent,
  fail: silent,
  exitWith: silent,
} as unknown as CommandContext

/** The command line as it is defined, with every command loaded. */
const program = new Command("berth").option("-V, --version")
for (const { name, load } of COMMANDS) await (await load()).define(program.command(name), CONTEXT)

/** A word in capitals stands for whatever the reader chooses. */
const isPlaceholder = (word: string): boolean => /^[A-Z]+$/.test(word)

const flagsOf = (command: Command): (string | undefined)[] => [
  "--help",
  ...command.options.flatMap(({ long, short }) => [long, short]),
]

/** Whether any command has the flag. */
export const isFlag = (flag: string): boolean => {
  const all = [program, ...program.commands.flatMap((each) => [each, ...each.commands])]
  return all.some((command) => flagsOf(command).includes(flag))
}

/** The first word of a line that begins with `berth` that there is not; undefined: there is all of it. */
export const missingIn = (line: string): string | undefined => {
  let command = program
  for (const word of line.split(" ").slice(1)) {
    // The rest is another program's.
    if (word === "--") return undefined
    if (isPlaceholder(word)) continue
    const next = command.commands.find((each) => each.name() === word)
    if (next !== undefined) command = next
    else if (word.startsWith("-") ? !flagsOf(command).includes(word) : isUnknown(command))
      return word
  }
  return undefined
}

/** Whether a word after a command can only name one of its own commands. */
const isUnknown = ({ commands, registeredArguments }: Command): boolean =>
  commands.length > 0 && registeredArguments.length === 0
