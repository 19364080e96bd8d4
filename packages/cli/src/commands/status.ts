import type { ServerStatus } from "@berth/protocol/health"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { sayDuration } from "../say-duration.ts"
import { printable } from "../terminal.ts"

const HELP = `
The server is found through its data directory.

Examples:
  berth status
  berth status --data-dir ~/try-berth --json`

export const define: DefineCommand = async (command, { out }) => {
  command
    .description("Shows the server that runs on this machine.")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const [{ findServer }, { createClient }] = await Promise.all([
      import("@berth/local/find-server"),
      import("@berth/sdk/client"),
    ])
    const { url, token } = await findServer(hostFlags(options))
    const status = await createClient({ url, token }).status()
    out(options.json ? toJson({ url, ...status }) : printable(render(url, status)))
  })
}

const render = (url: string, status: ServerStatus): string =>
  [
    `Berth ${status.version} answers on ${url}`,
    `  pid      ${status.pid}, up for ${sayDuration(status.uptimeMs)}`,
    `  data     ${status.dataDir}`,
    `  backend  ${status.backend}`,
    "",
  ].join("\n")
