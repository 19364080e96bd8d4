import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { localGit, localGitBytes } from "./local-git.ts"

/** How many files of a repo on this machine differ from its last commit, those that are not tracked included. */
export const countUncommitted = async (repo: string, signal: AbortSignal): Promise<number> => {
  const args = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
  const listed = await localGit({ directory: repo, args, signal })
  return listed.split("\0").filter(Boolean).length
}

export const sayUncommitted = (count: number): string =>
  count === 1
    ? "1 changed file is not in the sandbox; --dirty brings it"
    : `${count} changed files are not in the sandbox; --dirty brings them`

/** Brings what differs from the last commit on this machine into a sandbox's clone, which must be at that commit. */
export const bringUncommitted = async (
  sandbox: Sandbox,
  { repo, directory }: { readonly repo: string; readonly directory: string },
  signal: AbortSignal,
): Promise<void> => {
  const head = (await localGit({ directory: repo, args: ["rev-parse", "HEAD"], signal })).trim()
  const inside = async (command: readonly string[], stdin: string | Uint8Array = "") =>
    await sandbox.commands.run(command, { cwd: directory, stdin, signal })
  const { stdout: at } = await inside(["git", "rev-parse", "HEAD"])
  if (at.trim() !== head)
    throw notBrought(
      `the sandbox's repo is at ${at.trim() || "no commit"}, and this one at ${head}`,
    )
  const { stdout: changed } = await inside(["git", "status", "--porcelain"])
  if (changed !== "") throw notBrought("the sandbox's repo has changes of its own")
  const patch = await patchOf(repo, signal)
  if (patch.length === 0) return
  const { status, stderr } = await inside(["git", "apply", "--whitespace=nowarn", "-"], patch)
  if (status !== 0) throw notBrought(stderr.trim())
}

/** A patch of all that differs from the last commit. It is made aside, so that nothing is written into the repo. */
const patchOf = async (repo: string, signal: AbortSignal): Promise<Buffer> => {
  const scratch = await mkdtemp(join(tmpdir(), "berth-dirty-"))
  try {
    const where = ["rev-parse", "--path-format=absolute", "--git-path", "objects"]
    const objects = (await localGit({ directory: repo, args: where, signal })).trimEnd()
    const own = join(scratch, "objects")
    await mkdir(own)
    const env = {
      GIT_INDEX_FILE: join(scratch, "index"),
      GIT_OBJECT_DIRECTORY: own,
      // In quotes, as git reads a path with any letter in it.
      GIT_ALTERNATE_OBJECT_DIRECTORIES: JSON.stringify(objects),
    }
    const aside = { directory: repo, env, signal }
    await localGit({ ...aside, args: ["read-tree", "HEAD"] })
    await localGit({ ...aside, args: ["add", "--all", ":/"] })
    // Plumbing: what the person has set for the look of diffs does not change a patch.
    const diff = ["diff-index", "--cached", "--patch", "--binary", "--no-renames", "HEAD"]
    return await localGitBytes({ ...aside, args: diff })
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

const notBrought = (why: string): BerthError =>
  new BerthError("repo.uncommitted_refused", `the uncommitted changes were not brought: ${why}`)
