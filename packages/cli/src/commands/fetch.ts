import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { type DefineCommand, toJson } from "../command.ts"
import { addConfigFlags } from "../config-flags.ts"
import { localGit, repoAt } from "../local-git.ts"
import { receiveFile } from "../receive-file.ts"
import { findRepo } from "../sandbox-repo.ts"
import { connect } from "../server.ts"
import { cancelledBySignal } from "../signals.ts"
import { printable } from "../terminal.ts"

const HELP = `
The commits of a branch of the sandbox's repo, by default its current one, come into the repo here as
berth/WORKSPACE/BRANCH, beside the branches of other remotes. No file here changes: git diff, git merge and git
cherry-pick do the rest. Uncommitted changes in the sandbox do not come along: berth apply brings them.

Examples:
  berth fetch app && git diff HEAD...berth/app/main
  berth fetch app fix-the-test --into ~/src/app`

export const define: DefineCommand = async (command, { out, err }) => {
  command
    .description("Brings a sandbox's commits into the repo here, as a branch of a remote.")
    .argument("<sandbox>", "its id, the beginning of it, or its workspace")
    .argument("[branch]", "a branch of the sandbox's repo; default: the current one")
    .option("--repo <directory>", "the repo in the sandbox; default: the only one")
    .option(
      "--into <directory>",
      "the repo on this machine; default: that of the current directory",
    )
    .option("--json", "write the names of the fetched branches as JSON")
    .addHelpText("after", HELP)
  await addConfigFlags(command, "dataDir")
  command.action(async (name: string, branch: string | undefined, options) => {
    const { repo, into = ".", json, ...host } = options
    await cancelledBySignal(async (signal) => {
      const top = await repoAt(into, signal)
      const found = await findRepo(await connect(host), name, repo, err)
      const ref = branch === undefined ? undefined : `refs/heads/${branch}`
      const bundle = await found.sandbox.git.bundle(found.directory, {
        ...(ref && { ref }),
        signal,
      })
      const scratch = await mkdtemp(join(tmpdir(), "berth-fetch-"))
      try {
        const file = join(scratch, "bundle")
        await receiveFile(bundle, file, signal)
        const branches = await fetchBranches({ top, file, workspace: found.workspace, signal })
        out(json ? toJson({ branches }) : branches.map((each) => `${printable(each)}\n`).join(""))
      } finally {
        await rm(scratch, { recursive: true, force: true })
      }
    })
  })
}

interface Fetching {
  readonly top: string
  readonly file: string
  readonly workspace: string
  readonly signal: AbortSignal
}

/**
 * Fetches the branches of a bundle. The sandbox chose their names and contents: they land below one prefix, git checks
 * every object, and their hooks, submodules and tags are ignored.
 */
const fetchBranches = async ({ top, file, workspace, signal }: Fetching): Promise<string[]> => {
  const heads = await localGit({ directory: top, args: ["bundle", "list-heads", file], signal })
  const branches = heads.split("\n").flatMap((line) => {
    const [, branch] = / refs\/heads\/(.+)$/.exec(line) ?? []
    return branch === undefined ? [] : [branch]
  })
  if (branches.length === 0)
    throw new BerthError("not_found", "the sandbox's repo is at no branch: name one")
  const refspecs = branches.map(
    (branch) => `+refs/heads/${branch}:refs/remotes/berth/${workspace}/${branch}`,
  )
  const strict = ["-c", "fetch.fsckObjects=true", "-c", "core.hooksPath=/dev/null"]
  const fetch = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
  ]
  const args = [...strict, ...fetch, "--no-write-fetch-head", "--", file, ...refspecs]
  await localGit({ directory: top, args, signal })
  return branches.map((branch) => `berth/${workspace}/${branch}`)
}
