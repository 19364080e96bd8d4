import { BerthError } from "@berth/protocol/errors"
import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { type Ending, endEach } from "../end-each.ts"
import { connect } from "../server.ts"

const HELP = `
A sandbox is named by its id, by the beginning of its id, or by its workspace if that has only one sandbox. The id
of an earlier sandbox of the workspace stands for the current one. The processes in it are asked to end, and have
ten seconds for it. The files of its workspace are removed with it, and the workspace's sessions are closed; berth
stop keeps both. A sandbox that somebody uses is left alone, with status 1, unless --force is given: berth why says
who uses it. A workspace without a sandbox is removed by its name.

Examples:
  berth rm app
  berth rm sb-0123456789abcdefghjk sb-3
  berth rm app --force
  berth rm --all`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Removes sandboxes, with what runs in them and what it wrote.")
    .argument("[sandbox...]", "the sandboxes to remove")
    .option("--all", "remove all sandboxes of the server")
    .option("--force", "also if somebody uses the sandbox")
    .option("--json", "write the ids of the removed sandboxes as JSON")
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
