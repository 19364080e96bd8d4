import { readFileSync } from "node:fs"
import { BerthError } from "@berth/protocol/errors"
import type { Command } from "commander"

/** The flags for variables, as given. */
export interface VariableFlags {
  readonly env?: readonly string[] | undefined
  readonly envFile?: readonly string[] | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** Collects the values of an option that can be given several times. */
export const collect = (value: string, before: readonly string[] = []): string[] => [
  ...before,
  value,
]

/** Adds the flags for variables. Every user of the machine can see arguments, so there are two ways around them. */
export const addVariableFlags = (command: Command, of: string): Command =>
  command
    .option(
      "--env <name[=value]>",
      `a variable ${of}, can be given often; NAME alone takes the value of this command's own, which keeps secrets out of the list of processes`,
      collect,
    )
    .option(
      "--env-file <file>",
      `variables ${of}, one NAME=VALUE a line; can be given often, and --env wins`,
      collect,
    )

/** The variables that the flags name. `own` are those of this process. */
export const variablesOf = (
  { env = [], envFile = [] }: VariableFlags,
  own: Environment,
): Record<string, string> =>
  Object.fromEntries([
    ...envFile.flatMap((file) => inFile(file, own)),
    ...env.map((text) => variableOf(text, own, "--env")),
  ])

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Parses a variable. Its value may be a secret, so messages have the name alone. */
const variableOf = (text: string, own: Environment, where: string): [string, string] => {
  const end = text.indexOf("=")
  const name = end === -1 ? text : text.slice(0, end)
  if (!NAME.test(name))
    throw usage(`${where} takes NAME or NAME=VALUE, where NAME is of letters, digits and _`)
  if (end !== -1) return [name, text.slice(end + 1)]
  const value = own[name]
  if (value !== undefined) return [name, value]
  throw usage(`${where} ${name} takes the value of ${name} here, where it is not set`)
}

const inFile = (file: string, own: Environment): [string, string][] =>
  linesOf(file).flatMap((line, index) => {
    const text = line.trim().replace(/^export\s+/, "")
    if (text === "" || text.startsWith("#")) return []
    const [name, value] = variableOf(text, own, `line ${index + 1} of ${file}`)
    return [[name, unquoted(value)]]
  })

const linesOf = (file: string): string[] => {
  try {
    return readFileSync(file, "utf8").split("\n")
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw usage(`--env-file ${file} cannot be read: ${code}`, cause)
  }
}

/** Removes quotes around a whole value: they are for shells. */
const unquoted = (value: string): string => /^(["'])(.*)\1$/.exec(value)?.[2] ?? value

const usage = (message: string, cause?: unknown): BerthError =>
  new BerthError("input.usage", message, { cause })
