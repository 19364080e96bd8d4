import { open } from "node:fs/promises"
import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { Slug } from "@berth/protocol/ids"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { connect } from "../../server.ts"
import { cancelledBySignal } from "../../signals.ts"
import { printable } from "../../terminal.ts"
import { Progress } from "./progress.ts"

const HELP = `
The archive was written by berth layers export, on this machine or another. It may come from anybody: it holds files
and nothing else, so the new workspace has default settings, and no keys. berth up --name gives it other settings,
and a repo, whose folder is used as the archive has it. Ctrl-C leaves nothing until the workspace's sandbox has
begun; later, berth rm removes it. Without a file, or with -, the archive comes from standard input. The id of the
new workspace's sandbox is written to standard output when it is ready.

Examples:
  berth layers import app app.tar.zst
  berth layers import app app.tar.zst && berth up ./app --name app --network none`

const STAGES = { during: "sending the archive", after: "the files are being written to disk" }

export const defineImport: DefineCommand = async (command, { out, err, isScreen }) => {
  command
    .summary("make a workspace on the files of an archive")
    .description("Makes a workspace on the files of an archive.")
    .argument("<name>", "the name of the new workspace")
    .argument("[file]", "the archive; -: standard input")
    .option("--no-wait", "do not wait until its sandbox is ready")
    .option("--json", "write its sandbox as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, file: string = "-", { wait, json = false, ...options }) => {
    const slug = Slug.safeParse(name)
    if (!slug.success)
      throw new BerthError("input.usage", `the new name ${slug.error.issues[0]?.message}`)
    const archive = await openArchive(file)
    try {
      const client = await connect(options)
      await cancelledBySignal(async (signal) => {
        using progress = new Progress({ err, isScreen }, STAGES.during)
        const bytes = Readable.from(progress.counting(archive, STAGES))
        const sent = Readable.toWeb(bytes) as ReadableStream<Uint8Array>
        const made = await client.workspaces.importFiles(slug.data, sent, { signal })
        progress[Symbol.dispose]()
        const sandbox = client.sandboxes.at(made.identity.sandbox)
        const view = wait ? await sandbox.ready({ signal }) : made
        if (json) return out(toJson(view))
        out(`${sandbox.id}\n`)
        err(printable(`${name} is ${view.phase}\n`))
      })
    } finally {
      archive.destroy()
    }
  })
}

const openArchive = async (file: string): Promise<Readable> => {
  if (file !== "-") {
    const opened = await open(file).catch((cause) => {
      throw new BerthError("input.usage", `${file} cannot be read: ${cause.code}`, { cause })
    })
    if ((await opened.stat()).isDirectory()) {
      await opened.close()
      throw new BerthError("input.usage", `${file} is a folder, not an archive`)
    }
    return opened.createReadStream({ highWaterMark: 256 * 1024 })
  }
  if (process.stdin.isTTY === true)
    throw new BerthError("input.usage", "name a file: no archive comes from a terminal")
  return process.stdin
}
