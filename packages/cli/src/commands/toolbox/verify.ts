import { BerthError } from "@berth/protocol/errors"
import { ToolboxId, type ToolboxReport } from "@berth/protocol/toolbox"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags, hostFlags } from "../../config-flags.ts"
import { loadHost } from "../../host.ts"
import { saySize } from "../../say-size.ts"
import { cancelledBySignal } from "../../signals.ts"
import { printable } from "../../terminal.ts"
import { sayProblems } from "./say.ts"

const HELP = `
Reads every file and compares contents, modes, owners and links with the build's record. Differences are listed, and
the exit status is 1.

Examples:
  berth toolbox verify
  berth toolbox verify tb-0123456789abcdef0123456789abcdef01234567 --json`

export const defineVerify: DefineCommand = async (command, { out, fail }) => {
  command
    .summary("compare a toolbox, or each, with what was built")
    .description("Compares a toolbox, or each, with what was built.")
    .argument("[id]", "the toolbox; berth toolbox ls lists them")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (given: string | undefined, options) => {
    const id = given === undefined ? undefined : parseId(given)
    const { toolboxes } = await loadHost()
    const host = await toolboxes(hostFlags(options))
    const reports = await cancelledBySignal((signal) => host.verify(id, signal))
    out(options.json ? toJson({ toolboxes: reports }) : printable(reports.map(render).join("")))
    if (reports.some(({ status }) => status === "changed")) fail()
  })
}

const parseId = (given: string): ToolboxId => {
  const id = ToolboxId.safeParse(given)
  if (id.success) return id.data
  throw new BerthError("input.usage", `${given} is not the id of a toolbox, which looks like tb-…`)
}

const render = (report: ToolboxReport): string =>
  report.status === "intact"
    ? `${report.id}  intact, ${saySize(report)}\n`
    : `${report.id}  changed since it was built\n${sayProblems(report.problems)}`
