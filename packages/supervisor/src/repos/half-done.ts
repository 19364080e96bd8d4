import { gitFailure } from "./failure.ts"
import {
  CHECKOUT_DEADLINE_MS,
  type GitCall,
  type GitParts,
  git,
  LOOK_DEADLINE_MS,
  titleOf,
  tryGit,
} from "./git.ts"
import { keptRef, noteKept } from "./notes.ts"

/** The author of commits made here. A fresh sandbox has no author of its own. */
const AUTHOR = {
  GIT_AUTHOR_NAME: "Berth",
  GIT_AUTHOR_EMAIL: "berth@localhost",
  GIT_COMMITTER_NAME: "Berth",
  GIT_COMMITTER_EMAIL: "berth@localhost",
}
/** A second index, in the repo's own directory. */
const SPARE_INDEX = "berth-index"

interface Standing {
  readonly target: string
  /** Undefined: no commit yet. */
  readonly head: string | undefined
  /** Further commits whose files may be in the working tree, and can be fetched again. */
  readonly known: readonly string[]
}

/**
 * Saves the working tree as a commit, without touching it or the index, and returns the commit's ref. It has everything
 * except ignored files that a checkout of the target leaves alone. Returns undefined if the tree equals that of one of
 * these commits.
 *
 * This is for a checkout that was killed half-way. Its files are neither the old nor the new ones, and cannot be told
 * from work that somebody did since.
 */
export const saveTree = async (
  { target, head, known }: Standing,
  cwd: string,
  parts: GitParts,
): Promise<string | undefined> => {
  const ask = (args: readonly [string, ...string[]], more = {}) =>
    git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS, ...more }, parts)
  const index = await ask(["rev-parse", "--path-format=absolute", "--git-path", SPARE_INDEX])
  const environment = { GIT_INDEX_FILE: index, GIT_LITERAL_PATHSPECS: "1", ...AUTHOR }
  const more = { environment, deadlineMs: CHECKOUT_DEADLINE_MS }
  const staged = await stagedTree(cwd, parts)
  const heads = head === undefined ? [] : [head]
  // Git adds an ignored file only if it is tracked. So every file that the checkout writes or removes counts as
  // tracked.
  await ask(["read-tree", ...heads, ...staged, target], more)
  const displaced = await displacedBy({ args: LIST_DISPLACED, cwd, ...more }, parts)
  await ask(["add", "--all"], more)
  if (displaced !== "")
    await ask(["add", "--force", "--pathspec-from-file=-"], { ...more, input: displaced })
  const tree = await ask(["write-tree"], more)
  const trees = await Promise.all(
    [target, ...heads, ...known].map((commit) => ask(["rev-parse", `${commit}^{tree}`])),
  )
  if (trees.includes(tree)) return undefined
  const parents = heads.flatMap((commit) => ["-p", commit])
  const message = "What stood here when a checkout was found half-done"
  const commit = await ask(["commit-tree", tree, ...parents, "-m", message], more)
  await noteKept(commit, cwd, parts)
  return keptRef(commit)
}

/** The index as a tree; empty if it is none, as in the middle of a merge. */
const stagedTree = async (cwd: string, parts: GitParts): Promise<readonly string[]> => {
  const end = await tryGit({ args: ["write-tree"], cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return end.status === 0 ? [end.stdout.trim()] : []
}

/** Lists files where the checkout needs a directory, and directories where it needs a file. */
const LIST_DISPLACED = ["ls-files", "--killed", "--directory", "--no-empty-directory"] as const

/** The displaced paths, one per line, quoted as git takes them back. */
const displacedBy = async (call: GitCall, parts: GitParts): Promise<string> => {
  const end = await tryGit(call, parts)
  // A part of the list is not enough: the other files would be lost.
  if (end.status !== 0 || end.isStdoutCut) throw gitFailure(titleOf(call, parts.repo), end)
  return end.stdout
}
