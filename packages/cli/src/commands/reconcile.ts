import type { ReconciledSandbox, ReconcileReport } from "@berth/protocol/sandboxes"
import { inColumns } from "../columns.ts"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
The server does this by itself: when it starts, each minute, and whenever something happens to a sandbox. Each line
is a sandbox: its id, its workspace, the result, and the reason. A sandbox that somebody uses is never taken away.
Failed actions are tried again; the exit status is then 1.

Examples:
  berth reconcile --dry-run
  berth reconcile --json`

export const define: DefineCommand = async (command, { out, fail }) => {
  command
    .description("Compares what is wanted with what runs, and does what there is to do.")
    .option("--dry-run", "say what would be done, and do nothing")
    .option("--json", "write the whole report as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async ({ dryRun = false, json = false, ...host }) => {
    const report = await (await connect(host)).reconcile({ dryRun })
    out(json ? toJson(report) : printable(render(report)))
    if (report.sandboxes.some(({ outcome }) => outcome === "failed")) fail()
  })
}

const render = ({ sandboxes }: ReconcileReport): string =>
  sandboxes.length === 0 ? "There is no sandbox.\n" : inColumns(sandboxes.map(cellsOf))

const cellsOf = (one: ReconciledSandbox): string[] => [
  ...[one.sandbox, one.workspace ?? "", one.outcome === "planned" ? "would" : one.outcome],
  ...[one.action, one.error === undefined ? one.reason : wordsOf(one.error)],
]

/** The error message, with the engine's own words where there are any. */
const wordsOf = ({ message, details }: NonNullable<ReconciledSandbox["error"]>): string => {
  const { engineSaid } = details
  const isNew = typeof engineSaid === "string" && !message.includes(engineSaid)
  return isNew ? `${message}: ${engineSaid}` : message
}
