import { type GitParts, git, LOOK_DEADLINE_MS, TRANSFER_DEADLINE_MS } from "./git.ts"

/** Parallel fetches of each repo's submodules. */
const JOBS = 4

/** Fetches the submodules of the checkout from their own addresses, and returns their directories. */
export const syncSubmodules = async (cwd: string, parts: GitParts): Promise<readonly string[]> => {
  if (!(await hasSubmodules(cwd, parts))) return []
  // The addresses may have changed with the checkout.
  const sync = ["submodule", "sync", "--quiet", "--recursive"] as const
  await git({ args: sync, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
  await updateSubmodules(["--recursive"], cwd, parts)
  return await submodulesIn(cwd, parts)
}

export const hasSubmodules = async (cwd: string, parts: GitParts): Promise<boolean> => {
  const find = ["ls-files", "--", ".gitmodules"] as const
  return (await git({ args: find, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)) !== ""
}

/** Checks out the recorded commits, and fetches what is missing for that. */
export const updateSubmodules = async (
  which: readonly string[],
  cwd: string,
  parts: GitParts,
): Promise<void> => {
  const args = ["submodule", "update", "--init", "--progress", `--jobs=${JOBS}`, ...which] as const
  await git({ args, cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
}

/** The directories of the submodules that are there, including nested ones. */
export const submodulesIn = async (cwd: string, parts: GitParts): Promise<readonly string[]> => {
  const list = ["submodule", "foreach", "--quiet", "--recursive", "pwd"] as const
  const answer = await git({ args: list, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return answer.split("\n").filter((line) => line !== "")
}
