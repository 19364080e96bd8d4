import type { Session } from "@berth/protocol/session"
import { asTable } from "../../columns.ts"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { sayAsk } from "../../say-ask.ts"
import { sayDuration } from "../../say-duration.ts"
import { connect } from "../../server.ts"
import { printable } from "../../terminal.ts"

const HELP = `
Each line is a session: its id, its workspace, its agent, whether it takes prompts, its age, how many prompts run or
wait in it, and what its agent or its next prompt waits for. berth answer answers the agent, berth log shows the
conversation, and berth run --session goes on with it.

Examples:
  berth sessions
  berth sessions --json`

export const defineLs: DefineCommand = async (command, { out }) => {
  command
    .description("Lists the sessions of the server, the latest first.")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const sessions = await (await connect(options)).sessions.list()
    out(options.json ? toJson({ sessions }) : printable(render(sessions)))
  })
}

const render = (sessions: readonly Session[]): string =>
  sessions.length === 0
    ? "There is no session: berth run begins one.\n"
    : asTable(
        ["session", "workspace", "agent", "state", "age", "prompts", ""],
        sessions.map(cellsOf),
      )

const cellsOf = (session: Session): string[] => {
  const { id, workspace, agent, state, createdAt, pending, asks, waitsFor } = session
  const age = sayDuration(Math.max(0, Date.now() - Date.parse(createdAt)))
  const waiting = pending.length === 0 ? "" : `${pending.length} to do`
  const [ask] = asks
  const note = ask === undefined ? (waitsFor?.message ?? "") : sayAsk(ask)
  return [id, workspace, agent.kind, state, age, waiting, note]
}
