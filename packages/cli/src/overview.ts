import { COMMANDS } from "./commands.ts"

/** The text of `berth --help`. */
export const overview = (): string => `Usage: berth COMMAND [options]

Gives every coding agent a computer of its own.

Commands:
${COMMANDS.map(({ name, summary }) => `  ${name.padEnd(NAME_WIDTH)}  ${summary}`).join("\n")}

Options:
  -h, --help     show this, or after a command what it takes
  -V, --version  show the version

Exit status: 0 done, 1 failed, 2 wrong usage or configuration.
With --json a command writes JSON to standard output, and an error as JSON to standard error.
`

const NAME_WIDTH = Math.max(...COMMANDS.map(({ name }) => name.length))
