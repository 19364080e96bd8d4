import { type Lease, userOf } from "@berth/protocol/lease"
import type { DecisionView, SandboxWhy } from "@berth/protocol/sandboxes"
import { inColumns } from "../columns.ts"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { sayDuration } from "../say-duration.ts"
import { connect, findSandbox } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
First who uses the sandbox, each with the id of the claim and since when; then what was decided about it, the latest
first: when, what, and why. Also of one that is gone, by its id.

Examples:
  berth why app
  berth why sb-0123456789abcdefghjk --json`

export const define: DefineCommand = async (command, { out }) => {
  command
    .description("Shows why a sandbox is there, or why it is not any more.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, options) => {
    const why = await (await findSandbox(await connect(options), name)).why()
    out(options.json ? toJson(why) : printable(render(why, Date.now())))
  })
}

const render = (
  { sandbox, workspace, phase, halted, leases, decisions }: SandboxWhy,
  now: number,
) => {
  const name = workspace === null ? sandbox : `${sandbox} of ${workspace}`
  const users = leases.length === 0 ? "nobody uses it." : "it is used by"
  return [
    `${name} is ${phase}, and ${users}\n`,
    ...(halted === undefined ? [] : [`It is halted: ${halted}.\n`]),
    inColumns(leases.map((lease) => ["", ...cellsOfLease(lease, now)])),
    "\n",
    inColumns(decisions.map((decision) => cellsOfDecision(decision, now))),
  ].join("")
}

const cellsOfLease = (lease: Lease, now: number) => {
  const { id, acquiredAt, expiresAt } = lease
  return [
    ...[id, userOf(lease), `for ${since(acquiredAt, now)}`],
    expiresAt === null ? "" : `${since(now, expiresAt)} left`,
  ]
}

const cellsOfDecision = ({ at, action, reason }: DecisionView, now: number): string[] => [
  ...[`${since(at, now)} ago`, action, reason],
]

const since = (from: string | number, to: string | number): string =>
  sayDuration(Math.max(0, new Date(to).getTime() - new Date(from).getTime()))
