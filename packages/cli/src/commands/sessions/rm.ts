import { BerthError } from "@berth/protocol/errors"
import { type DefineCommand, toJsonLine } from "../../command.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { renderError } from "../../render-error.ts"
import { connect, findSession } from "../../server.ts"

const HELP = `
A session is named by its id or by the beginning of its id. Its prompts and events are removed with it; the files of
its workspace stay. A session in which a prompt runs or waits is left alone, with status 1, unless --force is given:
then the prompt is stopped first.

Examples:
  berth sessions rm ses-0123
  berth sessions rm ses-0123 --force
  berth sessions rm --all`

export const defineRm: DefineCommand = async (command, { out, err, fail }) => {
  command
    .summary("remove sessions, with what was said in them")
    .description("Removes sessions, with what was said in them.")
    .argument("[session...]", "the sessions to remove")
    .option("--all", "remove all sessions of the server")
    .option("--force", "also if a prompt runs or waits")
    .option("--json", "write the ids of the removed sessions as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (named: string[], options) => {
    const { all = false, force = false, json = false, ...host } = options
    if (all === named.length > 0)
      throw new BerthError("input.usage", "name the sessions, or say --all")
    const client = await connect(host)
    const names = all ? (await client.sessions.list()).map(({ id }) => id) : named
    const removed: string[] = []
    for (const name of names) {
      try {
        // A workspace's name would remove whichever session of it is the latest.
        if (!name.startsWith("ses-"))
          throw new BerthError("input.usage", `${name} is not the id of a session: ses-…`)
        const session = await findSession(client, name)
        await session.remove({ force })
        removed.push(session.id)
        if (!json) out(`${session.id}\n`)
      } catch (thrown) {
        fail()
        err(renderError(thrown, { json }))
      }
    }
    if (json) out(toJsonLine({ removed }))
  })
}
