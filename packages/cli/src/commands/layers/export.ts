import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { rename, rm } from "node:fs/promises"
import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { type DefineCommand, toJson } from "../../command.ts"
import { addConfigFlags } from "../../config-flags.ts"
import { receiveFile } from "../../receive-file.ts"
import { sayBytes } from "../../say-size.ts"
import { connect } from "../../server.ts"
import { cancelledBySignal } from "../../signals.ts"
import { writeTo } from "../../streams.ts"
import { printable } from "../../terminal.ts"
import { ofThisMachine } from "../cp/of-this-machine.ts"
import { Progress } from "./progress.ts"

const HELP = `
The archive is tar with zstd. It has the files of the workspace and of its home at one moment, for which the sandbox
stands still; its users are not disturbed otherwise. Keys, network, limits, agent and caches are not in it. Files
that programs inside wrote are in it: also an agent's logins, if it keeps them in its home. The file is complete or
absent; Ctrl-C leaves nothing. Files that no workspace owns after a database was lost can be exported as well.
Without a file, or with -, the archive goes to standard output.

Examples:
  berth layers export app app.tar.zst
  berth layers export app | ssh other-host berth layers import app`

const STAGES = { during: "writing the archive", after: "writing the archive" }

export const defineExport: DefineCommand = async (command, { out, err, isScreen }) => {
  command
    .summary("write the files of a workspace to an archive")
    .description("Writes the files of a workspace to an archive, which another machine can import.")
    .argument("<workspace>", "its name")
    .argument("[file]", "a file that does not exist; -: standard output")
    .option("--json", "write a summary of the archive as JSON; needs a file")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (workspace: string, file: string = "-", { json = false, ...options }) => {
    if (file === "-" && (json || process.stdout.isTTY === true))
      throw new BerthError(
        "input.usage",
        json ? "--json needs a file for the archive" : "name a file: a terminal takes no archive",
      )
    if (file !== "-" && existsSync(file))
      throw new BerthError("input.usage", `${file} exists: remove it, or name another file`)
    const client = await connect(options)
    await cancelledBySignal(async (signal) => {
      using progress = new Progress({ err, isScreen }, "the files are being copied")
      const archive = await client.workspaces.exportFiles(workspace, { signal })
      const bytes = progress.counting(archive, STAGES)
      if (file === "-") return await toStandardOutput(bytes)
      await toFile(bytes, file, signal)
      const made = { workspace, file, bytes: progress.bytes }
      progress[Symbol.dispose]()
      if (json) out(toJson(made))
      else err(printable(`${workspace} is in ${file}: ${sayBytes(made.bytes)}\n`))
    })
  })
}

const toStandardOutput = async (bytes: AsyncIterable<Uint8Array>): Promise<void> => {
  for await (const chunk of bytes)
    if (!(await writeTo(process.stdout, chunk)))
      throw new BerthError("cancelled", "whoever reads the archive has ended before it was whole")
}

/** Writes the archive to a file, under another name until it is whole. */
const toFile = async (
  bytes: AsyncIterable<Uint8Array>,
  file: string,
  signal: AbortSignal,
): Promise<void> => {
  const draft = `${file}.${randomUUID()}.part`
  try {
    const stream = Readable.toWeb(Readable.from(bytes)) as ReadableStream<Uint8Array>
    await receiveFile(stream, draft, signal)
    await rename(draft, file)
  } catch (thrown) {
    await rm(draft, { force: true })
    throw ofThisMachine(thrown, file)
  }
}
