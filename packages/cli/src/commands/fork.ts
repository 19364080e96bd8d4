import { BerthError } from "@berth/protocol/errors"
import { Slug } from "@berth/protocol/ids"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"
import { showForking } from "../show-forking.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"

const HELP = `
The new workspace is like the other one as it is described now, and has a copy of its files as they are at one
moment; from then on each has its own. Nobody who uses the other one is disturbed: most is copied while it runs, then it
stands still for what has changed since, and how long that was is said. The copy takes the time that it needs; Ctrl-C
ends it, and leaves nothing; once the new sandbox is begun, berth rm removes it. Of a sandbox that is stopped nothing is copied. The id of the new sandbox is written to
standard output when it is ready.

Examples:
  berth fork app app-try
  box=$(berth fork app app-try) && berth exec "$box" -- npm test; berth rm "$box"`

export const define: DefineCommand = async (command, { out, err, isScreen }) => {
  command
    .description("Makes another workspace on a copy of a sandbox's files.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("<name>", "what the new workspace is called")
    .option("--no-wait", "do not wait until it is ready")
    .option("--json", "write what the server says of it, and how long the other one stood still")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, to: string, { wait, ...options }) => {
    const slug = Slug.safeParse(to)
    if (!slug.success)
      throw new BerthError("input.usage", `the new name ${slug.error.issues[0]?.message}`)
    const client = await connect(options)
    await cancelledBySignal(async (signal) => {
      const shown = isScreen() && !options.json ? showForking(err) : undefined
      const sandbox = await findSandbox(client, name, err)
      const fork = await sandbox
        .fork(slug.data, { signal, ...(shown && { onProgress: shown.show }) })
        .finally(() => shown?.end())
      const { stoodStillMs } = fork
      const view = wait ? await fork.ready({ signal }) : await fork.get({ signal })
      if (options.json) return out(toJson({ ...view, stoodStillMs }))
      out(`${fork.id}\n`)
      const still = stoodStillMs > 0 ? `; ${name} stood still for ${stoodStillMs} ms` : ""
      err(printable(`${to} is ${view.phase}${still}\n`))
    })
  })
}
