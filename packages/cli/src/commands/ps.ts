import type { SandboxView } from "@berth/protocol/sandboxes"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect } from "../server.ts"
import { printable } from "../terminal.ts"
import { duration } from "./status.ts"

const HELP = `
Each line is a sandbox: its id, its workspace, its phase, how long ago it was made, and why its boot or the
sandbox itself ended, if it did.

Examples:
  berth ps
  berth ps --json`

export const define: DefineCommand = async (command, { out }) => {
  command
    .description("Lists the sandboxes of the server, the oldest first.")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (options) => {
    const sandboxes = await (await connect(options)).sandboxes.list()
    out(options.json ? toJson({ sandboxes }) : printable(render(sandboxes)))
  })
}

const render = (sandboxes: readonly SandboxView[]): string => {
  if (sandboxes.length === 0) return "There is no sandbox: berth up makes one.\n"
  const width = Math.max(...sandboxes.map(({ identity }) => identity.workspace.length))
  return sandboxes.map((view) => `${renderOne(view, width)}\n`).join("")
}

const renderOne = (
  { identity, phase, createdAt, exit, boot }: SandboxView,
  width: number,
): string => {
  const age = duration(Math.max(0, Date.now() - Date.parse(createdAt)))
  const ended = exit && `${exit.reason}${exit.code === null ? "" : ` with ${exit.code}`}`
  const why = boot?.ending?.reason ?? ended ?? ""
  return [identity.sandbox, identity.workspace.padEnd(width), phase.padEnd(8), age, why]
    .join("  ")
    .trimEnd()
}
