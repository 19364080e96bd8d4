import { join } from "node:path"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { answerOf, type GitParts } from "./call.ts"

/**
 * The root of the repo that a directory is in. Git's file names are relative to it. For a bare repo, the directory
 * itself.
 */
export const rootOf = async (directory: string, parts: GitParts): Promise<string> => {
  const args = ["rev-parse", "--show-cdup"] as const
  return join(directory, await answerOf({ args, directory, deadlineMs: LOOK_DEADLINE_MS }, parts))
}
