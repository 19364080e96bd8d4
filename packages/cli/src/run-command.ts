import { BerthError } from "@berth/protocol/errors"
import { Command, CommanderError } from "commander"
import type { CommandContext } from "./command.ts"
import { COMMANDS } from "./commands.ts"
import { DONE, FAILED, WRONG_USAGE } from "./exit-status.ts"
import { overview } from "./overview.ts"
import { renderError } from "./render-error.ts"
import type { Terminal } from "./terminal.ts"

/** Runs the command that the arguments name. */
export const runCommand = async (args: readonly string[], terminal: Terminal): Promise<number> => {
  let status: number = DONE
  const exitWith = (wanted: number) => {
    status = wanted
  }
  const fail = () => exitWith(FAILED)
  try {
    const program = await createProgram(args, { ...terminal, fail, exitWith })
    await program.parseAsync(args, { from: "user" })
    return status
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return DONE
    const error = thrown instanceof CommanderError ? usageError(thrown) : thrown
    terminal.err(renderError(error, { json: args.includes("--json") }))
    if (isUsage(error)) return WRONG_USAGE
    return status === DONE ? FAILED : status
  }
}

const createProgram = async (args: readonly string[], context: CommandContext) => {
  const program = new Command("berth")
  program.helpInformation = overview
  program.exitOverride().configureOutput({
    writeOut: context.out,
    writeErr: context.err,
    // Errors are thrown, and rendered like all others.
    outputError: () => {},
  })
  for (const { name, summary, load } of COMMANDS) {
    const command = program.command(name).summary(summary).helpOption("-h, --help", "show this")
    if (args.includes(name)) await (await load()).define(command, context)
  }
  return program
}

const usageError = ({ message }: CommanderError): BerthError =>
  new BerthError("input.usage", message.replace(/^error: /, "").replaceAll("\n", " "))

const isUsage = (error: unknown): boolean =>
  error instanceof BerthError && (error.code === "input.usage" || error.code === "config.invalid")
