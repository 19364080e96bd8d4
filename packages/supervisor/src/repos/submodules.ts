import { type GitParts, git, LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "./git.ts"

/** At the same time, for each repo. */
const JOBS = 4

/** Brings the submodules of the checkout, where it has any, and returns their directories. */
export const syncSubmodules = async (cwd: string, parts: GitParts): Promise<readonly string[]> => {
  const deadlineMs = TRANSFER_DEADLINE_MS
  const find = ["ls-files", "--", ".gitmodules"] as const
  if ((await git({ args: find, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)) === "") return []
  // Their addresses may have changed with the checkout.
  await git({ args: ["submodule", "sync", "--quiet", "--recursive"], cwd, deadlineMs }, parts)
  const how = ["--init", "--recursive", "--progress", `--jobs=${JOBS}`]
  await git({ args: ["submodule", "update", ...how], cwd, deadlineMs }, parts)
  const list = ["submodule", "foreach", "--quiet", "--recursive", "pwd"] as const
  const answer = await git({ args: list, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return answer.split("\n").filter((line) => line !== "")
}
