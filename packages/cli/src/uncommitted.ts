import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { localGit, localGitBytes } from "./local-git.ts"

/** The number of files of a local repo that differ from its last commit, including untracked ones. */
export const countUncommitted = async (repo: string, signal: AbortSignal): Promise<number> => {
  const args = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
  const listed = await localGit({ directory: repo, args, signal })
  return listed.split("\0").filter(Boolean).length
}

export const sayUncommitted = (count: number): string =>
  count === 1
    ? "1 changed file is not in the sandbox; --dirty brings it"
    : `${count} changed files are not in the sandbox; --dirty brings them`

/** Brings local changes since the last commit into a sandbox's clone, which must be at that commit. */
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

/** A patch of all changes since the last commit. It is made outside of the repo, so that nothing is written into it. */
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
      // The path is quoted, as git reads a path with any characters in it.
      GIT_ALTERNATE_OBJECT_DIRECTORIES: JSON.stringify(objects),
    }
    const aside = { directory: repo, env, signal }
    await localGit({ ...aside, args: ["read-tree", "HEAD"] })
    await localGit({ ...aside, args: ["add", "--all", ":/"] })
    // A plumbing command is used, so that the person's settings for diffs do not change the patch.
    const diff = ["diff-index", "--cached", "--patch", "--binary", "--no-renames", "HEAD"]
    return await localGitBytes({ ...aside, args: diff })
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

const notBrought = (why: string): BerthError =>
  new BerthError("repo.uncommitted_refused", `the uncommitted changes were not brought: ${why}`)
