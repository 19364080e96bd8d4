import { keepsAmong, type Lease, userOf, usesAmong } from "@berth/protocol/lease"
import type { DecisionView, SandboxWhy } from "@berth/protocol/sandboxes"
import { inColumns } from "../columns.ts"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { sayDuration } from "../say-duration.ts"
import { connect } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
First come the users of the sandbox, or those for whom it is kept, each with the id and the age of the lease; then
the decisions about the sandbox, the latest first: when, what, and why. A sandbox that is gone is named by its id;
if another took its place, the decisions about both are shown.

Examples:
  berth why app
  berth why sb-0123456789abcdefghjk --json`

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Shows why a sandbox is there, or why it is not any more.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .option("--json", "write JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, options) => {
    const client = await connect(options)
    const { sandbox, earlier } = await client.sandboxes.named(name)
    if (earlier !== undefined) err(`${earlier} is now ${sandbox}\n`)
    // Asked by the id that was named, the server tells of both sandboxes.
    const why = await client.sandboxes.at(earlier ?? sandbox).why()
    out(options.json ? toJson(why) : printable(render(why, Date.now())))
  })
}

const render = ({ sandbox, workspace, phase, halted, leases, ...why }: SandboxWhy, now: number) => {
  const name = workspace === null ? sandbox : `${sandbox} of ${workspace}`
  const [uses, keeps] = [usesAmong(leases), keepsAmong(leases)]
  const isKept = keeps.length > 0
  return [
    `${name} is ${phase}, and ${uses.length > 0 ? "it is used by" : `nobody uses it.${isKept ? " It is kept for" : ""}`}\n`,
    ...(halted === undefined ? [] : [`It is halted: ${halted}.\n`]),
    renderLeases(uses, now),
    ...(uses.length > 0 && isKept ? ["and kept for\n"] : []),
    renderLeases(keeps, now),
    "\n",
    renderDecisions(why.decisions, now),
    ...(why.earlier === undefined
      ? []
      : [
          `\n${why.earlier.sandbox}, which it took the place of:\n`,
          renderDecisions(why.earlier.decisions, now),
        ]),
  ].join("")
}

const renderLeases = (leases: readonly Lease[], now: number): string =>
  inColumns(leases.map((lease) => ["", ...cellsOfLease(lease, now)]))

const renderDecisions = (decisions: readonly DecisionView[], now: number): string =>
  inColumns(decisions.map((decision) => cellsOfDecision(decision, now)))

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
