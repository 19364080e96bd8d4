import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { type Ending, endEach } from "../end-each.ts"
import { connect } from "../server.ts"

const HELP = `
What runs in it is asked to end, and has ten seconds for it. The files of its workspace are kept, and the next use
of it (berth exec, for instance) starts it again. One that somebody uses is left alone, with status 1, unless
forced: berth why says who does.

Examples:
  berth stop app
  berth stop app --force`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Stops sandboxes, and keeps their files.")
    .argument("<sandbox...>", "its id, the beginning of it, or its workspace")
    .option("--force", "though somebody uses it, who is cut off")
    .option("--json", "write the ids of those that are stopped as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (names: string[], { force = false, json = false, ...host }) => {
    const end: Ending["end"] = (sandbox) => sandbox.stop({ force })
    await endEach(await connect(host), names, { word: "stopped", json, end }, context)
  })
}
