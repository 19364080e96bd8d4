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
 * cloned      it was not there
 * updated     another commit or branch was checked out
 * unchanged   it was at what is wanted already
 * kept        someone's work is there that a checkout would have lost, so there was none
 */
export type Did = "cloned" | "updated" | "unchanged" | "kept"

export interface Synced {
  readonly did: Did
  /** What HEAD is now; undefined: the repo has no commit. */
  readonly commit: string | undefined
  readonly branch: string | undefined
  /** What was kept, and why or where; empty otherwise. */
  readonly kept: string
}

export interface SyncOptions {
  readonly source: Source
  /** Where the repo belongs. */
  readonly path: string
  /** Where it is made: on the same file system, and nobody looks there. */
  readonly aside: string
  /** When the supervisor started: whatever is older is no living process's. */
  readonly bornAt: Date
  /** Whether a clone needs its setup hook, though this boot is none that runs it. */
  readonly isSetupDue: boolean
  readonly warn: (message: string) => void
}

/** Brings one repo to what the plan wants: it is cloned where it is absent, and otherwise brought up to date. */
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

/** Everything happens aside, and the last thing is a rename: a repo that is in its place is whole. */
const clone = async (options: SyncOptions, parts: GitParts): Promise<Synced> => {
  const { source, path, aside } = options
  await remove(aside, parts)
  const target = await source.clone(aside)
  if (target !== undefined) {
    await forceCheckOut(target, aside, parts)
    await complete(target, aside, options, parts)
    // Before it is in its place: a boot that is cut short after that finds the repo there.
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
  // Submodules that someone moved are such changes.
  if (seen.changes === 0) await complete(target, path, options, parts)
  return { ...unchanged, did: decision.action === "leave" ? "unchanged" : "updated", kept: "" }
}

/** Does again what an earlier boot was killed at. Undefined: nothing was under way. */
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

/** What belongs to a checkout besides its files; the last thing is the note that all of it is there. */
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
