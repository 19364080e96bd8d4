import { BerthError } from "@berth/protocol/errors"
import type { GitCommit, GitCommitRequest } from "@berth/protocol/git"
import { fromWire } from "../files/work/bytes.ts"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { answerOf, askGit, type GitCall, type GitParts } from "./call.ts"
import { logOf } from "./log.ts"
import { rootOf } from "./root.ts"

/** Time limit. Hooks run linters and tests. */
export const COMMIT_DEADLINE_MS = 10 * 60_000

/** The committer if git's configuration has none. */
const NOBODY = { name: "agent", email: "agent@localhost" }

export const commit = async (
  directory: string,
  { message, author, all, paths }: Omit<GitCommitRequest, "repo">,
  parts: GitParts,
): Promise<GitCommit> => {
  const root = await rootOf(directory, parts)
  const call = (args: GitCall["args"], input?: Buffer): GitCall => ({
    args,
    directory: root,
    deadlineMs: COMMIT_DEADLINE_MS,
    withHooks: true,
    ...(input && { input }),
    // A commit needs locks.
    environment: { GIT_OPTIONAL_LOCKS: "1" },
  })
  const list = paths && Buffer.concat(paths.flatMap((path) => [fromWire(path), Buffer.of(0)]))
  if (all) await answerOf(call(["add", "--all"]), parts)
  if (list) await answerOf(call(["add", "--all", ...FROM_INPUT], list), parts)
  const which = list ? ["--only", ...FROM_INPUT] : []
  const { status } = await askGit(call(["commit", "--dry-run", "--short", ...which], list), parts)
  if (status === 1) throw new BerthError("git.nothing_to_commit", "there is nothing to commit")
  const made = call(["commit", "--quiet", `--message=${message}`, ...which], list)
  const environment = { ...made.environment, ...(await identity(root, author, parts)) }
  await answerOf({ ...made, environment }, parts)
  const { commits } = await logOf(root, { limit: 1 }, parts)
  return commits[0] as GitCommit
}

const FROM_INPUT = ["--pathspec-from-file=-", "--pathspec-file-nul"]

/** Variables for author and committer: the named author, and a committer only if git's configuration has none. */
const identity = async (
  directory: string,
  author: GitCommitRequest["author"],
  parts: GitParts,
): Promise<Record<string, string>> => {
  const args = ["-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT"] as const
  const { status } = await askGit({ args, directory, deadlineMs: LOOK_DEADLINE_MS }, parts)
  const known = status === 0 ? undefined : (author ?? NOBODY)
  const wrote = author ?? known
  return {
    ...(wrote && { GIT_AUTHOR_NAME: wrote.name, GIT_AUTHOR_EMAIL: wrote.email }),
    ...(known && { GIT_COMMITTER_NAME: known.name, GIT_COMMITTER_EMAIL: known.email }),
  }
}
