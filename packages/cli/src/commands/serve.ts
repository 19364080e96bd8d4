import type { DefineCommand } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { loadHost } from "../host.ts"
import { runUntilSignal } from "../signals.ts"

const HELP = `
The address is written to standard output as soon as the server answers, the log to standard error.
SIGINT or SIGTERM stops it after running requests have ended; a second one ends it at once.

Users of this machine who are in the --group can use it, and are then as good as the user who runs it. Their commands find it by
themselves on /var/lib/berth, where root's server keeps its data; elsewhere they name the directory (BERTH_DATA_DIR).

Examples:
  berth serve
  berth serve --port 0 --data-dir ~/try-berth
  berth serve --group developers`

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Runs a server on this machine until it is told to stop.")
    .option("--json", "write the address as one line of JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command)
  command.action(async (options) => {
    const { serve } = await loadHost()
    await runUntilSignal(async () => {
      const server = await serve(hostFlags(options))
      const { url, pid, dataDir } = server
      out(options.json ? `${JSON.stringify({ url, pid, dataDir })}\n` : `Berth answers on ${url}\n`)
      return server
    }, err)
  })
}
