import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
A sandbox that the server does not know, and in which nothing lives, is quarantined: stopped, with its files kept
for seven days. berth recover gives the files back to its workspace, and the next use of it (berth exec, for
instance) starts it again. berth ps shows which are quarantined.

Examples:
  berth recover sb-0123456789abcdefghjk
  berth recover app --json`

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Gives the files of a quarantined sandbox back to its workspace.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .option("--json", "write what the server says of it")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, options) => {
    const client = await connect(options)
    const sandbox = await findSandbox(client, name, err, { quarantined: true })
    const view = await sandbox.recover()
    if (options.json) return out(toJson(view))
    out(`${sandbox.id}\n`)
    err(printable(`${view.identity.workspace} has its files again: the next use starts it\n`))
  })
}
