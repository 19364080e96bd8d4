import { checkOut, forceCheckOut } from "./checkout.ts"
import { decide } from "./decide.ts"
import { lookAtPlace, moveIntoPlace, remove, removeLeftovers, taken } from "./files.ts"
import type { GitParts } from "./git.ts"
import { saveTree } from "./half-done.ts"
import { pullLfs } from "./lfs.ts"
import { lookAtWork } from "./look.ts"
import { noteBegin, noteNothingUnderWay, noteSetupDue, noteSynced, underWay } from "./notes.ts"
import type { Source, Target } from "./target.ts"

/**
 * The outcome of a sync:
 *
 * cloned      the repo was not there
 * updated     another commit or branch was checked out
 * unchanged   the wanted commit and branch were checked out already
 * kept        no checkout was made, as it would have lost somebody's work
 */
export type Did = "cloned" | "updated" | "unchanged" | "kept"

export interface Synced {
  readonly did: Did
  /** HEAD's commit now; undefined: the repo has no commit. */
  readonly commit: string | undefined
  readonly branch: string | undefined
  /** Describes the work that was kept, and why or where; else empty. */
  readonly kept: string
}

export interface SyncOptions {
  readonly source: Source
  /** The repo's final path. */
  readonly path: string
  /** Path at which it is cloned: on the same file system, in a directory that nobody uses. */
  readonly aside: string
  /** The supervisor's start time. Older files belong to no living process. */
  readonly bornAt: Date
  /** Whether a clone needs its setup hook, though this boot does not run it. */
  readonly isSetupDue: boolean
  readonly warn: (message: string) => void
}

/** Brings a repo to the state that the plan wants: clones it if it is absent, else updates it. */
export const syncRepo = async (options: SyncOptions, parts: GitParts): Promise<Synced> => {
  switch (await lookAtPlace(options.path, parts)) {
    case "absent":
      return await clone(options, parts)
    case "repo":
      return await update(options, parts)
    case "other":
      throw taken(parts.repo, options.path)
  }
}

/** Clones aside, and renames at the end: a repo in its place is whole. */
const clone = async (options: SyncOptions, parts: GitParts): Promise<Synced> => {
  const { source, path, aside } = options
  await remove(aside, parts)
  const target = await source.clone(aside)
  if (target !== undefined) {
    await forceCheckOut(target, aside, parts)
    await complete(target, aside, options, parts)
    // Noted before the rename: a boot that is cut short after it finds the repo in place.
    if (options.isSetupDue) await noteSetupDue(target.commit, aside, parts)
  }
  await moveIntoPlace(aside, path, parts)
  return { did: "cloned", commit: target?.commit, branch: target?.branch, kept: "" }
}

const update = async (options: SyncOptions, parts: GitParts): Promise<Synced> => {
  const { source, path, bornAt, warn } = options
  const leftovers = await removeLeftovers(path, bornAt, parts)
  if (leftovers.length > 0) warn(`removed what a killed git had left: ${leftovers.join(", ")}`)
  const target = await source.fetch(path)
  const unchanged = { did: "unchanged", commit: target?.commit, branch: target?.branch } as const
  if (target === undefined) return { ...unchanged, kept: "" }
  const seen = await lookAtWork(path, target, parts)
  const keep = (kept: string): Synced => {
    const there = `${seen.branch ?? "detached"} at ${seen.head?.slice(0, 12)}`
    warn(`kept ${kept}: it stays ${there}, not at ${target.commit.slice(0, 12)}`)
    return { did: "kept", commit: seen.head, branch: seen.branch, kept }
  }
  if (seen.ownCommits === 0) {
    const finished = await finishHalfDone(target, seen.head, options, parts)
    if (finished !== undefined) return { ...unchanged, did: "updated", kept: finished.kept }
  }
  const decision = decide(seen, target)
  if (decision.action === "keep") return keep(decision.kept)
  if (decision.action === "checkout") {
    await noteBegin(target.commit, path, parts)
    const inTheWay = await checkOut(target, path, parts)
    if (inTheWay.length > 0) {
      await noteNothingUnderWay(path, parts)
      return keep(`files that a checkout would overwrite (${inTheWay.join(", ")})`)
    }
  }
  // Submodules at another commit count as changes.
  if (seen.changes === 0) await complete(target, path, options, parts)
  return { ...unchanged, did: decision.action === "leave" ? "unchanged" : "updated", kept: "" }
}

/** Finishes a checkout during which an earlier boot was killed. Returns undefined if there was none. */
const finishHalfDone = async (
  target: Target,
  head: string | undefined,
  options: SyncOptions,
  parts: GitParts,
): Promise<Pick<Synced, "kept"> | undefined> => {
  const { path, warn } = options
  const begun = await underWay(path, parts)
  if (begun === undefined) return undefined
  const standing = { target: target.commit, head, known: [begun] }
  const saved = await saveTree(standing, path, parts)
  await noteBegin(target.commit, path, parts)
  await forceCheckOut(target, path, parts)
  await complete(target, path, options, parts)
  const kept = saved === undefined ? "" : `what stood in its files, as ${saved}`
  warn(`a checkout that was cut short is finished${kept && `; kept ${kept}`}`)
  return { kept }
}

/** Fetches submodules and large files of a checkout, and notes at the end that it is complete. */
const complete = async (
  target: Target,
  cwd: string,
  { source, warn }: SyncOptions,
  parts: GitParts,
): Promise<void> => {
  const submodules = await source.bringSubmodules(cwd, target.commit, warn)
  for (const tree of [cwd, ...submodules])
    if ((await pullLfs(tree, parts)) === "missing")
      warn("it keeps files in Git LFS, and git-lfs is not installed here: they are pointers only")
  await noteSynced(target.commit, cwd, parts)
}
