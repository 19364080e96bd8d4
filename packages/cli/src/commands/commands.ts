import type { DefineCommand } from "../command.ts"
import { defineLog } from "./commands/log.ts"
import { defineLs } from "./commands/ls.ts"
import { defineStop } from "./commands/stop.ts"

const HELP = `
A command in the background was started by berth exec --detach, and keeps its sandbox while it runs.

Each of these takes --json, and --data-dir [BERTH_DATA_DIR].

Examples:
  id=$(berth exec app --detach -- npm run dev)
  berth commands
  berth commands log app "$id" --follow
  berth commands stop app "$id"`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Lists, shows and ends commands in the background.")
    .addHelpText("after", HELP)
  // Without a subcommand, it lists.
  await defineLs(command.command("ls", { isDefault: true }), context)
  await defineLog(command.command("log"), context)
  await defineStop(command.command("stop"), context)
}
