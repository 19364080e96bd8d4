import type { Readable } from "node:stream"
import type { GitCommit, GitLog, GitLogQuery } from "@berth/protocol/git"
import { DEFAULT_GIT_COMMITS, MAX_GIT_BODY_BYTES } from "@berth/protocol/git-limits"
import { fromWire } from "../files/work/bytes.ts"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { type GitParts, git } from "./call.ts"
import { recordsOf } from "./records.ts"
import { commitOf, headOf } from "./revision.ts"
import { rootOf } from "./root.ts"

const FIELDS = ["%H", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%B"]

/** Reads the log, newest commits first; empty before the first commit. */
export const logOf = async (
  directory: string,
  { head, base, path, limit = DEFAULT_GIT_COMMITS }: Omit<GitLogQuery, "repo">,
  parts: GitParts,
): Promise<GitLog> => {
  const root = await rootOf(directory, parts)
  const from = head === undefined ? await headOf(root, parts) : await commitOf(root, head, parts)
  if (from === undefined) return { commits: [], isCut: false }
  const without = base === undefined ? [] : [`^${await commitOf(root, base, parts)}`]
  const commits = await git(
    {
      args: [
        ...(["log", "-z", "--no-show-signature", "--encoding=UTF-8", "--no-patch"] as const),
        ...[`--format=${FIELDS.join("%x00")}`, `--max-count=${limit + 1}`, from, ...without],
      ],
      directory: root,
      deadlineMs: LOOK_DEADLINE_MS,
      script: 'exec xargs -0 "$@" --',
      input: path === undefined ? Buffer.alloc(0) : Buffer.concat([fromWire(path), Buffer.of(0)]),
    },
    parts,
    parseLog,
  )
  return { commits: commits.slice(0, limit), isCut: commits.length > limit }
}

export const parseLog = async (stdout: Readable): Promise<GitCommit[]> => {
  const commits: GitCommit[] = []
  let fields: string[] = []
  for await (const record of recordsOf(stdout)) {
    fields.push(record.subarray(0, MAX_GIT_BODY_BYTES).toString("utf8"))
    if (fields.length < FIELDS.length) continue
    commits.push(commitFrom(fields))
    fields = []
  }
  return commits
}

const commitFrom = (fields: readonly string[]): GitCommit => {
  const [id = "", parents = "", authorName = "", authorEmail = "", authoredAt = ""] = fields
  const [name = "", email = "", committedAt = "", message = ""] = fields.slice(5)
  return {
    id,
    parents: parents.split(" ").filter(Boolean),
    author: { name: authorName, email: authorEmail },
    authoredAt,
    committer: { name, email },
    committedAt,
    message,
  }
}
