import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { loadHost } from "../host.ts"
import { connect, findRunning, findSandbox } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"
import { renderWaterfall } from "../waterfall.ts"

const HELP = `
Each line is a step: how it ended, when it ran beside the others, how long it took, what it did. A boot
that is under way is shown as it is now. The exit status is 1 when the boot failed. Where no server runs, the sandbox is
named by its id.

Examples:
  berth boot
  berth boot app
  berth boot sb-0123456789abcdefghjk --json`

export const define: DefineCommand = async (command, { out, err, fail }) => {
  command
    .description("Shows how a sandbox booted, as a waterfall.")
    .argument(
      "[sandbox]",
      "its id, the beginning of it, or its workspace; without one, the sandbox that was made last",
    )
    .option("--json", "write the whole trace as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string | undefined, options) => {
    const sandbox = name === undefined ? undefined : await find(name, options, err)
    const { boots } = await loadHost()
    const host = await boots(hostFlags(options))
    const trace = await cancelledBySignal((signal) => host.trace(sandbox, signal))
    if (options.json) out(toJson(sandbox === undefined ? trace : { sandbox, ...trace }))
    else out(printable(renderWaterfall(trace, new Date())))
    if (trace.outcome === "failed") fail()
  })
}

/**
 * Finds a sandbox by asking the server; where none answers, a whole id is looked up on the disk, and no server is
 * waited for.
 */
const find = async (
  name: string,
  options: Readonly<Record<string, unknown>>,
  say: (line: string) => void,
): Promise<SandboxId> => {
  const { success, data } = SandboxId.safeParse(name)
  try {
    const client = await connect(options, success ? findRunning : undefined)
    return (await findSandbox(client, name, say)).id
  } catch (thrown) {
    if (success && thrown instanceof BerthError && UNANSWERED.has(thrown.code)) return data
    throw thrown
  }
}

const UNANSWERED: ReadonlySet<string> = new Set([
  "server.not_running",
  "server.starting",
  "server.unreachable",
  "backend.unavailable",
])
