import type { Readable } from "node:stream"
import type { GitDiffQuery } from "@berth/protocol/git"
import { fromWire } from "../files/work/bytes.ts"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { type GitParts, git } from "./call.ts"
import { commitOf, emptyTree, headOf } from "./revision.ts"
import { rootOf } from "./root.ts"

/** One that git applies again, whatever the user's configuration likes to see. */
export const UNIFIED = ["--patch", "--binary", "--full-index", "-U3", "--inter-hunk-context=0"]

const ALWAYS = [
  ...["--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--find-renames"],
  ...["--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none"],
  "-O/dev/null",
]

/**
 * The files that are not tracked are shown by an index of our own, in which they are announced; the repo's is
 * not touched. It keeps the time of the repo's, by which git knows what may have changed since. The path to limit the diff to comes from the input, since an argument may be text alone.
 */
const WITH_UNTRACKED = `
scratch=$(mktemp -d) || exit
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' HUP INT TERM
index=$(git rev-parse --git-path index) || exit
[ ! -e "$index" ] || cp -p -- "$index" "$scratch/index" || exit
export GIT_INDEX_FILE="$scratch/index"
git -c core.fsmonitor=false ls-files -z --others --exclude-standard |
  git -c core.fsmonitor=false -c advice.addEmbeddedRepo=false add --intent-to-add --ignore-errors --pathspec-from-file=- --pathspec-file-nul
xargs -0 "$@" --`

const OF_COMMITS = `exec xargs -0 "$@" --`

/** The output of `git diff` in that form. */
export const diffOf = async <Result>(
  directory: string,
  { base, head, path }: Omit<GitDiffQuery, "repo">,
  form: readonly string[],
  parts: GitParts,
  read: (stdout: Readable) => Promise<Result>,
): Promise<Result> => {
  const root = await rootOf(directory, parts)
  const from =
    base === undefined
      ? ((await headOf(root, parts)) ?? (await emptyTree(root, parts)))
      : await commitOf(root, base, parts)
  const to = head === undefined ? [] : [await commitOf(root, head, parts)]
  return await git(
    {
      args: ["diff", ...ALWAYS, ...form, from, ...to],
      directory: root,
      deadlineMs: LOOK_DEADLINE_MS,
      script: head === undefined ? WITH_UNTRACKED : OF_COMMITS,
      input: path === undefined ? Buffer.alloc(0) : Buffer.concat([fromWire(path), Buffer.of(0)]),
    },
    parts,
    read,
  )
}
