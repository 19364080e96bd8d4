import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { loadHost } from "../host.ts"
import { cancelledBySignal } from "../signals.ts"

const HELP = `
Each part is ok, degraded (it works, with something lost) or missing, with why it matters and the
command that fixes it. The exit status is 1 when a part is missing.

Examples:
  berth doctor
  berth doctor --json`

export const define: DefineCommand = async (command, { out, hasColors, fail }) => {
  command
    .description("Shows what this machine offers to sandboxes, and how to get what it lacks.")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const { doctor } = await loadHost()
    const { report, render } = await cancelledBySignal((signal) =>
      doctor(hostFlags(options), signal),
    )
    out(options.json ? toJson(report) : render({ color: hasColors() }))
    if (report.status === "missing") fail()
  })
}
