import type { Client } from "@berth/sdk/client"
import { type CommandContext, type DefineCommand, toJsonLine } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { type Ending, endEach } from "../end-each.ts"
import { connect, findSession } from "../server.ts"

const HELP = `
The processes in the sandbox are asked to end, and have ten seconds for it. The files of its workspace are kept, and
its next use (berth exec, for instance) starts it again. A sandbox that somebody uses is left alone, with status 1,
unless --force is given: berth why says who uses it.

With --prompt the sandbox goes on, and the prompts that run or wait in a session are stopped: in the named session,
or in the latest one of the named workspace.

Examples:
  berth stop app
  berth stop --prompt app
  berth stop app --force`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Stops sandboxes and keeps their files, or stops prompts.")
    .argument(
      "<sandbox...>",
      "its id, the beginning of it, or its workspace; with --prompt, a session",
    )
    .option("--prompt", "stop the prompts of a session instead")
    .option("--force", "also if somebody uses the sandbox: they are cut off")
    .option("--json", "write the ids of stopped sandboxes or prompts as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (names: string[], { prompt, force = false, json = false, ...host }) => {
    if (prompt) return await stopPrompts(await connect(host), names, json, context)
    const end: Ending["end"] = (sandbox) => sandbox.stop({ force })
    await endEach(await connect(host), names, { word: "stopped", json, end }, context)
  })
}

const stopPrompts = async (
  client: Client,
  names: readonly string[],
  json: boolean,
  { out, err }: CommandContext,
): Promise<void> => {
  const sessions = await Promise.all(names.map((name) => findSession(client, name)))
  const stopped = (await Promise.all(sessions.map((session) => session.stop()))).flat()
  if (json) return out(toJsonLine({ stopped }))
  if (stopped.length === 0) err("no prompt runs or waits there\n")
  for (const prompt of stopped) out(`${prompt}\n`)
}
