import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
A sandbox that fills the disk, or takes more of it than its workspace may (berth up --disk), is halted: its
processes stand still. This command ends them, agents and commands, and lets the sandbox go on for a quarter of an
hour, so that files can be deleted in it. The sandbox is halted again if its files grow meanwhile, and if they still
take too much when the time is over. To keep its processes, make room elsewhere or allow it more (berth up --disk):
then it goes on by itself.

Examples:
  berth make-room app && berth exec app -- rm -rf node_modules
  berth make-room app && berth shell app`

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Lets a halted sandbox go on for a while, so that files can be deleted in it.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .option("--json", "write the sandbox as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, options) => {
    const sandbox = await findSandbox(await connect(options), name, err)
    const view = await sandbox.makeRoom()
    if (options.json) return out(toJson(view))
    out(`${sandbox.id}\n`)
    err(printable(`${view.identity.workspace} goes on for 15 min; what ran in it has ended\n`))
  })
}
