import { BerthError } from "@berth/protocol/errors"
import type { DefineCommand } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { connect, findSandbox } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { copyIn } from "./cp/in.ts"
import { ofThisMachine } from "./cp/of-this-machine.ts"
import { copyOut } from "./cp/out.ts"
import { CopyReport } from "./cp/report.ts"

const HELP = `
Either the source or the destination is in a sandbox: SANDBOX:PATH. A relative path there is below the workspace. A
folder is copied with its contents, times and modes. If the destination is an existing folder or ends in /, the copy
is put into it. Files that are copied into a sandbox belong to its user, files that are copied out belong to you.
Named pipes, sockets and devices are skipped, with a line on standard error.

Examples:
  berth cp app:report.html .
  berth cp ./fixtures app:fixtures
  berth cp app:/workspace/app/dist ./dist`

export const define: DefineCommand = async (command, terminal) => {
  command
    .description("Copies a file or a folder into a sandbox, or out of it.")
    .argument("<source>", "a path, or SANDBOX:PATH")
    .argument("<destination>", "a path, or SANDBOX:PATH")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (source: string, destination: string, options) => {
    const [from, to] = [inSandbox(source), inSandbox(destination)]
    if ((from === undefined) === (to === undefined))
      throw new BerthError("input.usage", "exactly one of the two is in a sandbox: SANDBOX:PATH")
    const client = await connect(options)
    const find = (name: string) => findSandbox(client, name, terminal.err, { start: true })
    await cancelledBySignal(async (signal) => {
      using report = new CopyReport(terminal)
      const how = { signal, report }
      if (to !== undefined) await copyIn(() => find(to.sandbox), source, to.path, how)
      else if (from !== undefined)
        await copyOut(await find(from.sandbox), from.path, destination, how)
    }).catch((thrown) => {
      throw ofThisMachine(thrown)
    })
  })
}

/** Parses `sandbox:path`. A path of this machine with a colon is recognised by a slash before it, as in ./a:b. */
const inSandbox = (text: string): { sandbox: string; path: string } | undefined => {
  const [, sandbox, path] = /^([a-z][a-z0-9-]*):(.*)$/s.exec(text) ?? []
  return sandbox === undefined || path === undefined ? undefined : { sandbox, path: path || "." }
}
