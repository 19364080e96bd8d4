import type { Seen } from "./decide.ts"
import { askGit, type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"
import { SYNCED_REFS } from "./notes.ts"
import type { Target } from "./target.ts"

type Standing = Pick<Seen, "head" | "branch" | "changes">

/**
 * Reads HEAD, and counts the tracked files that differ from it. Untracked files are left out, as git itself spares
 * them.
 */
export const lookAtTree = async (cwd: string, parts: GitParts): Promise<Standing> => {
  const how = ["--porcelain=v2", "--branch", "--untracked-files=no", "--no-renames", "-z"]
  const args = ["status", ...how, "--ignore-submodules=none"] as const
  const environment = { GIT_OPTIONAL_LOCKS: "0" }
  const answer = await git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS, environment }, parts)
  const entries = answer.split("\0").filter((entry) => entry !== "")
  const header = (name: string) =>
    entries.find((entry) => entry.startsWith(`# ${name} `))?.slice(name.length + 3)
  const head = header("branch.oid")
  const branch = header("branch.head")
  return {
    head: head === "(initial)" ? undefined : head,
    branch: branch === "(detached)" ? undefined : branch,
    changes: entries.filter((entry) => !entry.startsWith("# ")).length,
  }
}

export const lookAtWork = async (cwd: string, target: Target, parts: GitParts): Promise<Seen> => {
  const standing = await lookAtTree(cwd, parts)
  const wanted = target.branch && `refs/heads/${target.branch}`
  const known = ["--not", "--remotes", "--tags", `--glob=${SYNCED_REFS}`, target.commit]
  const [ownCommits, ownOnWanted, behind] = await Promise.all([
    standing.head === undefined ? 0 : count([standing.head, ...known], cwd, parts),
    wanted && (await exists(wanted, cwd, parts)) ? count([wanted, ...known], cwd, parts) : 0,
    standing.head === undefined ? 0 : count([`${standing.head}..${target.commit}`], cwd, parts),
  ])
  return { ...standing, ownCommits, ownOnWanted, behind }
}

const count = async (
  revisions: readonly string[],
  cwd: string,
  parts: GitParts,
): Promise<number> => {
  const args = ["rev-list", "--count", ...revisions] as const
  return Number(await git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts))
}

const exists = async (ref: string, cwd: string, parts: GitParts): Promise<boolean> => {
  const args = ["rev-parse", "--quiet", "--verify", ref] as const
  return (await askGit({ args, cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)) !== undefined
}
