import type { Readable } from "node:stream"
import type { GitDiffQuery } from "@berth/protocol/git"
import { fromWire } from "../files/work/bytes.ts"
import { LOOK_DEADLINE_MS } from "../repos/git.ts"
import { type GitParts, git } from "./call.ts"
import { commitOf, emptyTree, headOf } from "./revision.ts"
import { rootOf } from "./root.ts"

/** Options for a diff that git can apply again, whatever the user's configuration says. */
export const UNIFIED = ["--patch", "--binary", "--full-index", "-U3", "--inter-hunk-context=0"]

const ALWAYS = [
  ...["--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--find-renames"],
  ...["--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none"],
  "-O/dev/null",
]

/**
 * A script that includes untracked files. They are announced in a copy of the index, and the repo's own is not touched.
 * The copy keeps the original's time, by which git knows what may have changed since. The path to limit the diff to
 * comes from the input, since an argument can only be text.
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

/** Runs `git diff` with the given options. */
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
