import type { SandboxView } from "@berth/protocol/sandboxes"
import type { Session } from "@berth/protocol/session"
import { asTable } from "../columns.ts"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { sayAsk } from "../say-ask.ts"
import { sayDuration } from "../say-duration.ts"
import { sayUse } from "../say-use.ts"
import { connect } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
Each line is a sandbox: its id, its workspace, its phase, its age, and a remark. The remark says why it is halted,
what its agent or the next prompt of its workspace waits for, the current step of its boot, who uses it, for whom it
is kept, or why its boot or the sandbox itself ended.

A stopped or paused sandbox is started by its next use: berth exec, for instance. A draining one is replaced when
nobody uses it any more. A halted one takes too much of the disk: berth make-room lets you delete files in it. A
failed one did not boot, and stays up for a while so that you can look at it: berth up --retry boots again. With
--json a stopped sandbox is "gone".

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
    const client = await connect(options)
    const [sandboxes, sessions] = await Promise.all([
      client.sandboxes.list(),
      client.sessions.list(),
    ])
    out(options.json ? toJson({ sandboxes }) : printable(render(sandboxes, sessions)))
  })
}

const render = (sandboxes: readonly SandboxView[], sessions: readonly Session[]): string =>
  sandboxes.length === 0
    ? "There is no sandbox: berth up makes one.\n"
    : asTable(
        ["sandbox", "workspace", "phase", "age", ""],
        sandboxes.map((sandbox) => cellsOf(sandbox, sessions)),
      )

const cellsOf = (
  { identity, phase, halted, createdAt, exit, boot, leases }: SandboxView,
  sessions: readonly Session[],
): string[] => {
  const age = sayDuration(Math.max(0, Date.now() - Date.parse(createdAt)))
  const ended = exit && `${exit.reason}${exit.code === null ? "" : ` with ${exit.code}`}`
  const asking = sessions.find(
    ({ workspace, asks }) => workspace === identity.workspace && asks.length > 0,
  )
  const [ask] = asking?.asks ?? []
  const answer = ask?.kind === "permission" ? "--allow" : '"the answer"'
  const asks = ask && `${sayAsk(ask)} (berth answer ${asking?.id} ${answer})`
  const users = sayUse(leases)
  const failed = phase === "failed" && [boot?.ending?.reason, users].filter(Boolean).join("; ")
  const waiting = sessions.find(
    ({ workspace, waitsFor }) => workspace === identity.workspace && waitsFor !== null,
  )
  const waits = waiting && `${waiting.id} waits: ${waiting.waitsFor?.message}`
  const booting = boot !== null && boot.running.length > 0 && `boot: ${boot.running.join(", ")}`
  const note =
    halted || failed || asks || waits || booting || users || boot?.ending?.reason || ended || ""
  // A sandbox that is gone is listed only while its workspace is there, with its files.
  return [identity.sandbox, identity.workspace, phase === "gone" ? "stopped" : phase, age, note]
}
