import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"

const HELP = `
A sandbox is named by its id, by the beginning of it, or by its workspace where that has only one. What runs
in it is asked to end, and has ten seconds for it. The files of its workspace go with it: berth stop keeps them.
One that somebody uses is left alone, unless forced.

Examples:
  berth rm app
  berth rm sb-0123456789abcdefghjk sb-3`

export const define: DefineCommand = async (command, { out }) => {
  command
    .description("Removes sandboxes, with what runs in them and what it wrote.")
    .argument("<sandbox...>", "which")
    .option("--force", "though somebody uses it")
    .option("--json", "write the ids of those that are removed as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (names: string[], options) => {
    const client = await connect(options)
    // All are found before one is removed: a wrong name removes nothing.
    const sandboxes = await Promise.all(names.map((name) => findSandbox(client, name)))
    const removed = [...new Set(sandboxes.map(({ id }) => id))]
    await Promise.all(
      removed.map((id) => client.sandboxes.remove(id, { force: options.force === true })),
    )
    out(options.json ? `${JSON.stringify({ removed })}\n` : `${removed.join("\n")}\n`)
  })
}
