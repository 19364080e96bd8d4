import { SandboxId } from "@berth/protocol/ids"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { loadHost } from "../host.ts"
import { connect, findSandbox } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"
import { renderWaterfall } from "../waterfall.ts"

const HELP = `
Each line is a step: how it ended, when it ran beside the others, how long it took, what it did. A boot
that is under way is shown as it is now. The exit status is 1 when the boot failed.

Examples:
  berth boot
  berth boot app
  berth boot sb-0123456789abcdefghjk --json`

export const define: DefineCommand = async (command, { out, fail }) => {
  command
    .description("Shows how a sandbox booted, as a waterfall.")
    .argument(
      "[sandbox]",
      "its id, the beginning of it, or its workspace; without one, the sandbox that was made last",
    )
    .option("--json", "write the whole trace as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (sandbox: string | undefined, options) => {
    const { boots } = await loadHost()
    const host = await boots(hostFlags(options))
    const id = await idOf(sandbox, options)
    const trace = await cancelledBySignal((signal) => host.trace(id, signal))
    out(options.json ? toJson(trace) : printable(renderWaterfall(trace, new Date())))
    if (trace.outcome === "failed") fail()
  })
}

/** A whole id is looked for on the disk, which also works without a server; other names are the server's to know. */
const idOf = async (
  name: string | undefined,
  options: Readonly<Record<string, unknown>>,
): Promise<SandboxId | undefined> => {
  if (name === undefined) return undefined
  const { success, data } = SandboxId.safeParse(name)
  return success ? data : (await findSandbox(await connect(options), name)).id
}
