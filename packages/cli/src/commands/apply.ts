import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { localGit, repoAt } from "../local-git.ts"
import { findRepo } from "../sandbox-repo.ts"
import { connect } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"

const HELP = `
The difference between the files of the sandbox's repo and its last commit, or --base, is applied to the files of
the repo here: all of it, or nothing if a part does not fit. Git refuses paths that lead out of the repo, and paths
in its own directory. Review the changes before you run them: git diff.

Examples:
  berth apply app
  berth apply app --base main
  berth apply app --dry-run`

/** Git reads a patch three times here, so it is kept in memory. */
const MAX_DIFF_BYTES = 256 * 1024 * 1024

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Applies what has changed in a sandbox's repo to the repo here.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .option("--base <commit>", "a commit of the sandbox's repo to compare with; default: its HEAD")
    .option("--repo <directory>", "the repo in the sandbox; default: the only one")
    .option(
      "--into <directory>",
      "the repo on this machine; default: that of the current directory",
    )
    .option("--dry-run", "say which files would change, and change nothing")
    .option("--json", "write the names of the files as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, options) => {
    const { base, repo, into = ".", dryRun = false, json, ...host } = options
    await cancelledBySignal(async (signal) => {
      const directory = await repoAt(into, signal)
      const { sandbox, directory: inside } = await findRepo(await connect(host), name, repo, err)
      const diff = await collect(
        await sandbox.git.diffStream(inside, { ...(base && { base }), signal }),
      )
      if (diff.length === 0) {
        if (json) out(toJson({ files: [] }))
        else err(printable(`nothing has changed in ${inside}\n`))
        return
      }
      const apply = async (...flags: readonly string[]) => {
        const input = Readable.from([diff])
        const args = ["apply", "--whitespace=nowarn", ...flags, "-"]
        return await localGit({ directory, args, input, signal })
      }
      await apply("--check")
      const files = (await apply("--numstat", "-z")).split("\0").filter(Boolean).map(nameOf)
      if (!dryRun) await apply()
      out(json ? toJson({ files }) : files.map((file) => `${printable(file)}\n`).join(""))
    })
  })
}

/** Collects the diff as bytes: files need not be text of one encoding. */
const collect = async (diff: ReadableStream<Uint8Array>): Promise<Buffer> => {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of diff) {
    bytes += chunk.length
    if (bytes > MAX_DIFF_BYTES)
      throw new BerthError(
        "input.usage",
        "the changes have more than 256 MiB: commit them, and use berth fetch",
      )
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The name in a line of `--numstat`: lines added, lines removed, name. */
const nameOf = (line: string): string => line.split("\t").slice(2).join("\t")
