import { type DefineCommand, toJsonLine } from "../../command.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { renderError } from "../../render-error.ts"
import { findCommand } from "../../sandbox-commands.ts"
import { connect, findSandbox } from "../../server.ts"

const HELP = `
A command ends with all processes that came from it: they are asked to end, and killed after a while. Its output is
removed with it.

Examples:
  berth commands stop app cmd-0123
  berth commands stop app cmd-0123 cmd-4567 --json`

export const defineStop: DefineCommand = async (command, { out, err, fail }) => {
  command
    .summary("end commands in the background")
    .description("Ends commands in the background, and forgets what they wrote.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("<command...>", "its id, or the beginning of it")
    .option("--json", "write the ids of the stopped commands as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, commands: string[], { json = false, ...host }) => {
    const sandbox = await findSandbox(await connect(host), name, err)
    const stopped: string[] = []
    for (const each of commands) {
      try {
        const { id } = await findCommand(sandbox, each)
        await sandbox.commands.kill(id)
        stopped.push(id)
        if (!json) out(`${id}\n`)
      } catch (thrown) {
        fail()
        err(renderError(thrown, { json }))
      }
    }
    if (json) out(toJsonLine({ stopped }))
  })
}
