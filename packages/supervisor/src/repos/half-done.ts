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

/** A commit needs an author, and a fresh sandbox has none. */
const AUTHOR = {
  GIT_AUTHOR_NAME: "Berth",
  GIT_AUTHOR_EMAIL: "berth@localhost",
  GIT_COMMITTER_NAME: "Berth",
  GIT_COMMITTER_EMAIL: "berth@localhost",
}
/** Beside the index, in the repo's own directory. */
const SPARE_INDEX = "berth-index"

interface Standing {
  readonly target: string
  /** Undefined: no commit yet. */
  readonly head: string | undefined
  /** Further commits whose files may stand there, and can be had again. */
  readonly known: readonly string[]
}

/**
 * Commits what stands in the working tree, without touching it or the index, and returns the ref: everything
 * but files that are ignored and that a checkout of the target leaves alone. Undefined: it is all as one of these
 * commits has it.
 *
 * This is for a checkout that was killed half-way. Its files are neither the old nor the new ones, and nobody
 * can tell them from work that someone did since.
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
  // Git adds an ignored file only where it is tracked: so all count as tracked that the checkout writes or removes.
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

/** The index as a tree, if it is one: in the middle of a merge it is not. */
const stagedTree = async (cwd: string, parts: GitParts): Promise<readonly string[]> => {
  const end = await tryGit({ args: ["write-tree"], cwd, deadlineMs: LOOK_DEADLINE_MS }, parts)
  return end.status === 0 ? [end.stdout.trim()] : []
}

/** Files where the checkout needs a directory, and directories where it needs a file. */
const LIST_DISPLACED = ["ls-files", "--killed", "--directory", "--no-empty-directory"] as const

/** One a line, in quotes where a name needs them: as git takes it back. */
const displacedBy = async (call: GitCall, parts: GitParts): Promise<string> => {
  const end = await tryGit(call, parts)
  // A part of them is not enough: the others would be lost.
  if (end.status !== 0 || end.isStdoutCut) throw gitFailure(titleOf(call, parts.repo), end)
  return end.stdout
}
