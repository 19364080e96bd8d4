import type { ToolboxSummary } from "@berth/protocol/toolbox"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags, hostFlags } from "../../config-flags.ts"
import { loadHost } from "../../host.ts"
import { saySize } from "../../say-size.ts"
import { cancelledBySignal } from "../../signals.ts"
import { printable } from "../../terminal.ts"
import { sayEntries } from "./say.ts"

const HELP = `
A toolbox is intact if nothing touched it since its contents were last compared, and unchecked if
something did: then they are compared again before it is used, or by berth toolbox verify.`

export const defineLs: DefineCommand = async (command, { out }) => {
  command
    .summary("list the toolboxes (the default)")
    .description("Lists the toolboxes, newest first, without reading their contents.")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const { toolboxes } = await loadHost()
    const host = await toolboxes(hostFlags(options))
    const found = await cancelledBySignal((signal) => host.list(signal))
    out(options.json ? toJson({ toolboxes: found }) : printable(render(found)))
  })
}

const render = (found: readonly ToolboxSummary[]): string =>
  found.length === 0
    ? "There is no toolbox yet: berth toolbox build makes it.\n"
    : found.map(renderOne).join("")

const renderOne = (toolbox: ToolboxSummary): string => {
  const { id, status, builtAt } = toolbox
  if (status === "damaged") return `${id}  damaged: its manifest cannot be trusted\n`
  const built = builtAt === null ? "" : `, built ${builtAt.slice(0, 16).replace("T", " ")} UTC`
  return `${id}  ${status}, ${saySize(toolbox)}${built}\n${sayEntries(toolbox.entries)}`
}
