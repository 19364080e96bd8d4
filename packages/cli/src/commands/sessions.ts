import type { DefineCommand } from "../command.ts"
import { defineLs } from "./sessions/ls.ts"
import { defineRm } from "./sessions/rm.ts"

const HELP = `
A session is a conversation with an agent in a workspace. It is closed when its workspace is removed, and can be read
until it is removed itself.

Each of these takes --json, and --data-dir [BERTH_DATA_DIR].

Examples:
  berth sessions
  berth sessions rm ses-0123
  berth sessions rm --all`

export const define: DefineCommand = async (command, context) => {
  command.description("Lists and removes sessions.").addHelpText("after", HELP)
  // Without a subcommand, it lists.
  await defineLs(command.command("ls", { isDefault: true }), context)
  await defineRm(command.command("rm"), context)
}
