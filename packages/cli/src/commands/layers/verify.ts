import type { LayersReport } from "@berth/protocol/layer"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags, hostFlags } from "../../config-flags.ts"
import { loadHost } from "../../host.ts"
import { cancelledBySignal } from "../../signals.ts"
import { printable } from "../../terminal.ts"

const HELP = `
Finishes or removes work on the layers that a crash cut short, and says so. Other damage is reported and left alone,
and the exit status is 1. Stop the server first: it repairs its own layers as it starts.`

export const defineVerify: DefineCommand = async (command, { out, fail }) => {
  command
    .summary("find and repair what a crash left")
    .description("Finds and repairs what a crash left of the layers.")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const { layers } = await loadHost()
    const host = await layers(hostFlags(options))
    const report = await cancelledBySignal((signal) => host.verify(signal))
    out(options.json ? toJson(report) : printable(render(report)))
    if (report.problems.length > 0) fail()
  })
}

const render = ({ repairs, problems, perhapsFrozen, checked }: LayersReport): string => {
  const lines = [
    ...repairs.map(({ subject, said }) => `repaired  ${subject}: ${said}`),
    ...problems.map(
      ({ subject, said, stacks }) =>
        `problem   ${subject}: ${said}${stacks.length === 0 ? "" : ` (${stacks.join(", ")})`}`,
    ),
    ...perhapsFrozen.map((sandbox) => `warning   ${sandbox} may still be frozen by a snapshot`),
    `checked   ${checked.stacks} stacks, ${checked.layers} layers, ${checked.tops} tops`,
  ]
  return `${lines.join("\n")}\n`
}
