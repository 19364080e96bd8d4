import { BerthError } from "@berth/protocol/errors"
import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { type Ending, endEach } from "../end-each.ts"
import { connect } from "../server.ts"

const HELP = `
A sandbox is named by its id, by the beginning of it, or by its workspace where that has only one. What runs
in it is asked to end, and has ten seconds for it. The files of its workspace go with it, and its sessions are closed:
berth stop keeps them. The id of an earlier sandbox of the workspace is as good as the current one's. One that somebody uses is left alone, with status 1, unless forced: berth why says who does.
A workspace that has no sandbox is removed by its name.

Examples:
  berth rm app
  berth rm sb-0123456789abcdefghjk sb-3
  berth rm app --force
  berth rm --all`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Removes sandboxes, with what runs in them and what it wrote.")
    .argument("[sandbox...]", "which")
    .option("--all", "all of the server's")
    .option("--force", "though somebody uses it")
    .option("--json", "write the ids of those that are removed as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (named: string[], options) => {
    const { all = false, force = false, json = false, ...host } = options
    if (all === named.length > 0)
      throw new BerthError("input.usage", "name the sandboxes, or say --all")
    const client = await connect(host)
    const names = all ? (await client.sandboxes.list()).map((view) => view.identity.sandbox) : named
    const end: Ending["end"] = (sandbox) => sandbox.remove({ force })
    const endUnmade = (name: string) => client.workspaces.remove(name)
    await endEach(client, names, { word: "removed", json, end, endUnmade }, context)
  })
}
