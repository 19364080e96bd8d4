import type { CommandInfo } from "@berth/protocol/commands"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { SandboxView } from "@berth/protocol/sandboxes"
import type { Client } from "@berth/sdk/client"
import { asTable } from "../../columns.ts"
import { type DefineCommand, toJson } from "../../command.ts"
import { sayExit } from "../../command-end.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { renderError } from "../../render-error.ts"
import { commandsIn } from "../../sandbox-commands.ts"
import { sayDuration } from "../../say-duration.ts"
import { connect, findSandbox } from "../../server.ts"
import { printable, shellWord } from "../../terminal.ts"

const HELP = `
Each line is a command: its id, its workspace, whether it runs or how it ended, its age, and the command itself. For
a named sandbox, the list also has the commands whose callers wait for them (attended), and for a quarter of an hour
the background commands that have ended. Without a name, the list has the running background commands of all
sandboxes.

Examples:
  berth commands
  berth commands app
  berth commands ls app --json`

export const defineLs: DefineCommand = async (command, { out, err, fail }) => {
  command
    .summary("list commands (the default)")
    .description("Lists the commands in a sandbox, or those in the background of all.")
    .argument("[sandbox]", "its id, the beginning of it, or its workspace")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string | undefined, { json = false, ...host }) => {
    const client = await connect(host)
    const failed = (thrown: unknown) => {
      fail()
      err(renderError(thrown, { json }))
    }
    const found =
      name === undefined
        ? await listAll(client, failed)
        : await listOf(client, await (await findSandbox(client, name, err)).get())
    out(json ? toJson({ commands: found }) : printable(render(found)))
  })
}

interface Listed extends CommandInfo {
  readonly sandbox: SandboxId
  readonly workspace: Slug
}

const listOf = async (client: Client, view: SandboxView): Promise<Listed[]> => {
  const { sandbox, workspace } = view.identity
  const commands = await commandsIn(client.sandboxes.at(sandbox), view)
  return commands.map((command) => ({ ...command, sandbox, workspace }))
}

/** The commands that run in the background. Only a sandbox that is used by a command is asked. */
const listAll = async (client: Client, failed: (thrown: unknown) => void): Promise<Listed[]> => {
  const used = (await client.sandboxes.list()).filter(({ leases }) =>
    leases.some(({ kind }) => kind === "exec"),
  )
  const lists = await Promise.all(
    used.map((view) =>
      listOf(client, view).catch((thrown) => {
        failed(thrown)
        return []
      }),
    ),
  )
  return lists.flat().filter(({ background, exit }) => background && exit === null)
}

const render = (found: readonly Listed[]): string =>
  found.length === 0
    ? "There is no command: berth exec --detach starts one in the background.\n"
    : asTable(["command", "workspace", "state", "age", "line"], found.map(cellsOf))

const cellsOf = ({ id, workspace, background, exit, startedAt, command }: Listed): string[] => {
  const running = background ? "runs" : "runs, attended"
  const age = sayDuration(Math.max(0, Date.now() - Date.parse(startedAt)))
  const state = exit === null ? running : sayExit(exit)
  return [id, workspace, state, age, command.map(asWord).join(" ")]
}

/** A word of a command line. Options are shown without quotes, as people type them. */
const asWord = (word: string): string => (/^-[\w./=-]*$/.test(word) ? word : shellWord(word))
