import type { Readable } from "node:stream"
import type { GitBundleQuery } from "@berth/protocol/git"
import { LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "../repos/git.ts"
import { answerOf, askGit, type GitParts, git } from "./call.ts"
import { commitOf } from "./revision.ts"

/** Makes a bundle, and passes it to `read`. Returns false, without a bundle, if the base has everything. */
export const bundleOf = async (
  directory: string,
  { ref, base }: Omit<GitBundleQuery, "repo">,
  parts: GitParts,
  read: (stdout: Readable) => Promise<void>,
): Promise<boolean> => {
  await commitOf(directory, ref ?? "HEAD", parts)
  const without = base === undefined ? [] : [`^${await commitOf(directory, base, parts)}`]
  const refs = ref === undefined ? ["HEAD", ...(await branchAt(directory, parts))] : [ref]
  const counting = ["rev-list", "--max-count=1", ...refs, ...without] as const
  const look = { directory, deadlineMs: LOOK_DEADLINE_MS }
  if ((await answerOf({ ...look, args: counting }, parts)) === "") return false
  const args = ["bundle", "create", "--quiet", "-", ...refs, ...without] as const
  await git({ args, directory, deadlineMs: TRANSFER_DEADLINE_MS }, parts, read)
  return true
}

/** The full name of HEAD's branch, if it is on one. */
const branchAt = async (directory: string, parts: GitParts): Promise<string[]> => {
  const args = ["symbolic-ref", "--quiet", "HEAD"] as const
  const { status, output } = await askGit({ args, directory, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return status === 0 ? [output.toString("utf8").trim()] : []
}
