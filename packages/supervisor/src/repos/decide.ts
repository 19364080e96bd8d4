import type { Target } from "./target.ts"

/** What stands in a repo, as far as a checkout could harm it. */
export interface Seen {
  /** Undefined: no commit yet. */
  readonly head: string | undefined
  /** Undefined: HEAD is detached. */
  readonly branch: string | undefined
  /** Tracked files, staged or not, and submodules, that are not as HEAD has them. */
  readonly changes: number
  /** Commits on HEAD that came neither from the source nor by an earlier sync. */
  readonly ownCommits: number
  /** The same, of the local branch that is wanted. */
  readonly ownOnWanted: number
  /** How many commits of the target HEAD lacks. */
  readonly behind: number
}

export type Decision =
  | { readonly action: "leave" }
  | { readonly action: "checkout" }
  /** Someone's work would be lost, or lost sight of. */
  | { readonly action: "keep"; readonly kept: string }

/** Whether to check out the target. Whatever came from the source is there still; all else is kept. */
export const decide = (seen: Seen, target: Target): Decision => {
  if (seen.head === target.commit && seen.branch === target.branch) return { action: "leave" }
  const kept = [
    seen.changes > 0 ? `${count(seen.changes, "file")} with uncommitted changes` : "",
    seen.ownCommits > 0 ? own(seen.ownCommits, placeOf(seen), seen.behind) : "",
    seen.ownCommits === 0 && seen.ownOnWanted > 0
      ? own(seen.ownOnWanted, target.branch ?? "", 0)
      : "",
  ].filter((part) => part !== "")
  return kept.length === 0 ? { action: "checkout" } : { action: "keep", kept: kept.join(", ") }
}

const placeOf = ({ branch }: Seen): string => branch ?? "a detached HEAD"

const own = (commits: number, where: string, behind: number): string => {
  const ahead = `${count(commits, "commit")} on ${where} that upstream lacks`
  return behind === 0 ? ahead : `${ahead} (upstream has ${behind} more)`
}

const count = (number: number, noun: string): string =>
  `${number} ${noun}${number === 1 ? "" : "s"}`
