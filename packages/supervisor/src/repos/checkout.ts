import { gitFailure } from "./failure.ts"
import { CHECKOUT_DEADLINE_MS, type GitCall, type GitParts, titleOf, tryGit } from "./git.ts"
import { lookAtTree } from "./look.ts"
import { type Target, trackingRef } from "./target.ts"

/**
 * Checks out the target. Returns the untracked files (ignored or not) that it would overwrite; then nothing was
 * changed.
 */
export const checkOut = async (
  target: Target,
  cwd: string,
  parts: GitParts,
): Promise<readonly string[]> => {
  const before = await lookAtTree(cwd, parts)
  const call = checkoutCall(target, cwd, ["--no-overwrite-ignore"])
  const end = await tryGit(call, parts)
  if (end.status === 0) return []
  const failure = gitFailure(titleOf(call, parts.repo), end)
  if (failure.code !== "repo.git_failed") throw failure
  // Git refuses before it changes anything. Any other failure leaves traces, or lists no files.
  const after = await lookAtTree(cwd, parts)
  const inTheWay = end.lastOutput.split("\n").flatMap((line) => /^\t(.+)$/.exec(line)?.[1] ?? [])
  const isRefusal = after.head === before.head && after.changes === before.changes
  if (end.status !== 1 || !isRefusal || inTheWay.length === 0) throw failure
  return inTheWay
}

/** Checks out the target, overwriting whatever is in the working tree. */
export const forceCheckOut = async (
  target: Target,
  cwd: string,
  parts: GitParts,
): Promise<void> => {
  const call = checkoutCall(target, cwd, ["--force"])
  const end = await tryGit(call, parts)
  if (end.status !== 0) throw gitFailure(titleOf(call, parts.repo), end)
}

const checkoutCall = ({ commit, branch }: Target, cwd: string, how: readonly string[]): GitCall => {
  const what =
    branch === undefined ? ["--detach", commit] : ["--track", "-B", branch, trackingRef(branch)]
  return {
    args: ["checkout", "--progress", ...how, ...what],
    cwd,
    deadlineMs: CHECKOUT_DEADLINE_MS,
  }
}
