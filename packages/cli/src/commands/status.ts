import type { ServerStatus } from "@berth/protocol/health"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags, hostFlags } from "../config-flags.ts"
import { loadHost } from "../host.ts"
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
      loadHost(),
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
    `  pid      ${status.pid}, up for ${duration(status.uptimeMs)}`,
    `  data     ${status.dataDir}`,
    `  backend  ${status.backend}`,
    "",
  ].join("\n")

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
] as const

/** In its two largest units. */
export const duration = (ms: number): string => {
  const seconds = Math.floor(ms / 1000)
  const [unit, size] = UNITS.find(([, unitSize]) => seconds >= unitSize) ?? ["s", 1]
  if (size === 1) return `${seconds} s`
  const [below, belowSize] = UNITS[UNITS.findIndex(([name]) => name === unit) + 1] ?? ["s", 1]
  const rest = Math.floor((seconds % size) / belowSize)
  return `${Math.floor(seconds / size)} ${unit} ${rest} ${below}`
}
