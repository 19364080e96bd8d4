import type { BootTrace } from "@berth/protocol/boot"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { loadHost } from "../host.ts"
import { connect, findRunning, findSandbox } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"
import { renderWaterfall } from "../waterfall.ts"

const HELP = `
Each line is a step: how it ended, when it ran beside the others, how long it took, what it did. A boot that is
under way is shown as far as it is. The exit status is 1 if the boot failed. If no server runs, name the sandbox by
its id.

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
    const { sandbox, trace } = await cancelledBySignal((signal) =>
      findTrace(name, { options, say: err, signal }),
    )
    if (options.json) out(toJson(sandbox === undefined ? trace : { sandbox, ...trace }))
    else out(printable(renderWaterfall(trace, new Date())))
    if (trace.outcome === "failed") fail()
  })
}

interface Traced {
  /** Undefined: the sandbox that was made last, where no server says which that is. */
  readonly sandbox: SandboxId | undefined
  readonly trace: BootTrace
}

interface Finding {
  readonly options: Readonly<Record<string, unknown>>
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/**
 * Asks the server. Where none answers, the trace of a whole id, or of the sandbox that was made last, is read from the
 * disk, and no server is waited for.
 */
const findTrace = async (name: string | undefined, finding: Finding): Promise<Traced> => {
  const { success: isId, data: id } = SandboxId.safeParse(name)
  const isOnDisk = isId || name === undefined
  try {
    return await askTrace(name, finding, isOnDisk ? findRunning : undefined)
  } catch (thrown) {
    if (!isOnDisk || !(thrown instanceof BerthError) || !UNANSWERED.has(thrown.code)) throw thrown
    return await readTrace(id, finding)
  }
}

const askTrace = async (
  name: string | undefined,
  { options, say, signal }: Finding,
  find: typeof findRunning | undefined,
): Promise<Traced> => {
  const client = await connect(options, find)
  const sandbox =
    name === undefined ? await latestOf(client, signal) : await findSandbox(client, name, say)
  return { sandbox: sandbox.id, trace: await sandbox.boot({ signal }) }
}

const latestOf = async (client: Client, signal: AbortSignal): Promise<Sandbox> => {
  const latest = (await client.sandboxes.list({ signal })).at(-1)
  if (latest !== undefined) return client.sandboxes.at(latest.identity.sandbox)
  throw new BerthError("not_found", "there is no sandbox")
}

const readTrace = async (
  sandbox: SandboxId | undefined,
  { options, signal }: Finding,
): Promise<Traced> => {
  const { boots } = await loadHost()
  const host = await boots(hostFlags(options))
  return { sandbox, trace: await host.trace(sandbox, signal) }
}

const UNANSWERED: ReadonlySet<string> = new Set([
  "server.not_running",
  "server.starting",
  "server.unreachable",
  "backend.unavailable",
])
