import type { Target } from "./target.ts"

/** The state of a repo, as far as a checkout could harm it. */
export interface Seen {
  /** Undefined: no commit yet. */
  readonly head: string | undefined
  /** Undefined: HEAD is detached. */
  readonly branch: string | undefined
  /** The number of tracked files and submodules that differ from HEAD, staged or not. */
  readonly changes: number
  /** The number of commits on HEAD that came neither from the source nor by an earlier sync. */
  readonly ownCommits: number
  /** The same number for the local branch that is wanted. */
  readonly ownOnWanted: number
  /** The number of the target's commits that HEAD lacks. */
  readonly behind: number
}

export type Decision =
  | { readonly action: "leave" }
  | { readonly action: "checkout" }
  /** A checkout would lose somebody's work, or hide it. */
  | { readonly action: "keep"; readonly kept: string }

/** Decides whether to check out the target. Commits of the source can be fetched again; all other work is kept. */
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
