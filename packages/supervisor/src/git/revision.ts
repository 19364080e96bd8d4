import { BerthError } from "@berth/protocol/errors"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { answerOf, askGit, type GitParts } from "./call.ts"

/** The id of a named commit. Throws if there is none. */
export const commitOf = async (
  directory: string,
  revision: string,
  parts: GitParts,
): Promise<string> => {
  const found = await findCommit(directory, revision, parts)
  if (found !== undefined) return found
  throw new BerthError("repo.ref_unknown", `the repo has no commit ${revision}`, {
    details: { revision },
  })
}

/** The id of HEAD's commit; undefined before the first commit. */
export const headOf = (directory: string, parts: GitParts): Promise<string | undefined> =>
  findCommit(directory, "HEAD", parts)

/** The id of the empty tree, against which everything is new. */
export const emptyTree = (directory: string, parts: GitParts): Promise<string> =>
  answerOf(
    {
      args: ["hash-object", "-t", "tree", "--stdin"],
      directory,
      input: Buffer.alloc(0),
      deadlineMs: LOOK_DEADLINE_MS,
    },
    parts,
  )

const findCommit = async (
  directory: string,
  revision: string,
  parts: GitParts,
): Promise<string | undefined> => {
  const { status, output } = await askGit(
    {
      args: ["rev-parse", "--verify", "--quiet", "--end-of-options", `${revision}^{commit}`],
      directory,
      deadlineMs: LOOK_DEADLINE_MS,
    },
    parts,
  )
  return status === 0 ? output.toString("latin1").trim() : undefined
}
