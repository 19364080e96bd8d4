import { CHECKOUT_DEADLINE_MS, type GitParts, git, LOOK_DEADLINE_MS } from "./git.ts"
import { keptRef, noteKept } from "./notes.ts"

/** A commit needs an author, and a fresh sandbox has none. */
const AUTHOR = {
  ...{ GIT_AUTHOR_NAME: "Berth", GIT_AUTHOR_EMAIL: "berth@localhost" },
  ...{ GIT_COMMITTER_NAME: "Berth", GIT_COMMITTER_EMAIL: "berth@localhost" },
}
/** Beside the index, in the repo's own directory. */
const SPARE_INDEX = "berth-index"

/**
 * Commits everything that stands in the working tree, without touching it or the index, and returns the ref.
 * Undefined: it is all as one of these commits has it.
 *
 * This is for a checkout that was killed half-way. Its files are neither the old nor the new ones, and nobody
 * can tell them from work that someone did since.
 */
export const saveTree = async (
  known: readonly string[],
  cwd: string,
  parts: GitParts,
): Promise<string | undefined> => {
  const ask = (args: readonly [string, ...string[]], more = {}) =>
    git({ args, cwd, deadlineMs: LOOK_DEADLINE_MS, ...more }, parts)
  const index = await ask(["rev-parse", "--path-format=absolute", "--git-path", SPARE_INDEX])
  const environment = { GIT_INDEX_FILE: index, ...AUTHOR }
  const more = { environment, deadlineMs: CHECKOUT_DEADLINE_MS }
  await ask(["read-tree", "HEAD"], more)
  await ask(["add", "--all"], more)
  const tree = await ask(["write-tree"], more)
  const trees = await Promise.all(known.map((commit) => ask(["rev-parse", `${commit}^{tree}`])))
  if (trees.includes(tree)) return undefined
  const message = "What stood here when a checkout was found half-done"
  const commit = await ask(["commit-tree", tree, "-p", "HEAD", "-m", message], more)
  await noteKept(commit, cwd, parts)
  return keptRef(commit)
}
