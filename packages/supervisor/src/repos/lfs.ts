import {
  askGit,
  type GitParts,
  git,
  LOOK_DEADLINE_MS,
  TRANSFER_DEADLINE_MS,
  tryGit,
} from "./git.ts"

/** "none": the checkout has no such files. "missing": it has, but git-lfs is not installed, so they are pointers. */
export type Lfs = "none" | "pulled" | "missing"

/** Fetches the files that the checkout keeps in large file storage. */
export const pullLfs = async (cwd: string, parts: GitParts): Promise<Lfs> => {
  const deadlineMs = LOOK_DEADLINE_MS
  const where = [".gitattributes", "**/.gitattributes"].map((path) => `:(glob)${path}`)
  const find = ["grep", "--cached", "--quiet", "-e", "filter=lfs", "--", ...where] as const
  if ((await askGit({ args: find, cwd, deadlineMs }, parts)) === undefined) return "none"
  if (!parts.hasLfs) return "missing"
  // The filters must be in the repo's own configuration, or git would report every such file as changed.
  const install = ["lfs", "install", "--local"] as const
  await git({ args: install, cwd, deadlineMs, withHooks: true }, parts)
  await git({ args: ["lfs", "pull"], cwd, deadlineMs: TRANSFER_DEADLINE_MS }, parts)
  return "pulled"
}

/**
 * Whether git-lfs is installed. Git's own message is not passed on, as we report a missing git-lfs in our own words.
 */
export const findLfs = async (parts: Omit<GitParts, "hasLfs" | "onOutput">): Promise<boolean> => {
  const call = { args: ["lfs", "version"], cwd: "/", deadlineMs: LOOK_DEADLINE_MS } as const
  return (await tryGit(call, { ...parts, hasLfs: false })).status === 0
}
