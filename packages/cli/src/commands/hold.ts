import { userInfo } from "node:os"
import { Duration, durationMs } from "@berth/protocol/duration"
import { BerthError } from "@berth/protocol/errors"
import { type HoldSandbox, MAX_HOLD_MS } from "@berth/protocol/sandboxes"
import type { Client } from "@berth/sdk/client"
import { type CommandContext, type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"
import { printable } from "../terminal.ts"

const HELP = `
A held sandbox is not paused, stopped or replaced, whether anybody uses it or not. A stopped one is started first.
The id of the hold is written to standard output. The hold ends with --release, or when its time is over.

Examples:
  berth hold app --for 2h --reason "demo at noon"
  held=$(berth hold app); berth hold --release "$held"`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Keeps a sandbox until it is released.")
    .argument("[sandbox]", "its id, the beginning of it, or its workspace")
    .option("--for <time>", "the longest time: 90s, 10m, 2h, 7d; default: until it is released")
    .option("--reason <text>", "the reason, which berth why shows")
    .option("--release <hold>", "end this hold")
    .option("--json", "write the hold as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string | undefined, options) => {
    const { for: time, reason, release: hold, ...host } = options
    if ((name === undefined) === (hold === undefined))
      throw new BerthError("input.usage", "name the sandbox to hold, or the hold to --release")
    if (hold !== undefined) return await release(await connect(host), hold, context, options)
    const wanted = holdOf(time, reason)
    const sandbox = await findSandbox(await connect(host), String(name), context.err, {
      start: true,
    })
    const lease = await sandbox.hold(wanted)
    if (options.json) return context.out(toJson(lease))
    context.out(`${lease.id}\n`)
    const end = lease.expiresAt ?? "it is released"
    context.err(printable(`${sandbox.id} is held until ${end}\n`))
  })
}

const holdOf = (time: string | undefined, reason: string | undefined): HoldSandbox => {
  const { username } = userInfo()
  const holder = (reason === undefined ? username : `${username}: ${reason}`).slice(0, 200)
  if (time === undefined) return { holder }
  const parsed = Duration.safeParse(time)
  if (!parsed.success)
    throw new BerthError("input.usage", `--for ${parsed.error.issues[0]?.message}, not ${time}`)
  const forMs = durationMs(parsed.data)
  if (forMs >= 1 && forMs <= MAX_HOLD_MS) return { holder, forMs }
  throw new BerthError("input.usage", `--for is at least 1s and at most 30d, not ${time}`)
}

const release = async (
  client: Client,
  hold: string,
  { out }: CommandContext,
  { json }: { readonly json?: boolean },
): Promise<void> => {
  const held = (await client.sandboxes.list()).find(({ leases }) =>
    leases.some(({ id }) => id === hold),
  )
  if (held === undefined) throw new BerthError("not_found", `there is no hold ${hold}`)
  const { sandbox } = held.identity
  await client.sandboxes.at(sandbox).release(hold)
  out(json ? toJson({ released: hold, sandbox }) : `${hold}\n`)
}
