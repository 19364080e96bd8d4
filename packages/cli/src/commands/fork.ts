import { BerthError } from "@berth/protocol/errors"
import { Slug } from "@berth/protocol/ids"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"
import { showForking } from "../show-forking.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"

const HELP = `
The new workspace has the current settings of the other one, and a copy of its files at one moment; from then on
they are independent. Users of the other one are not disturbed: most files are copied while it runs, then it stands
still for the files that have changed since. The command says how long. The copy takes the time that it needs;
Ctrl-C ends it and leaves nothing. After the new sandbox has begun, berth rm removes it. For a stopped sandbox
nothing needs to be copied. The id of the new sandbox is written to standard output when it is ready.

Examples:
  berth fork app app-try
  box=$(berth fork app app-try) && berth exec "$box" -- npm test; berth rm "$box"`

export const define: DefineCommand = async (command, { out, err, isScreen }) => {
  command
    .description("Makes another workspace on a copy of a sandbox's files.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("<name>", "the name of the new workspace")
    .option("--no-wait", "do not wait until the sandbox is ready")
    .option("--json", "write the sandbox, and how long the other one stood still, as JSON")
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
