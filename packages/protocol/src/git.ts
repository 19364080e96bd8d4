/**
 * Git in a sandbox, by its own program and with the rights of the sandbox's user.
 *
 * | call | takes | answers |
 * | --- | --- | --- |
 * | `GET /git/status` | GitQuery | GitStatus |
 * | `GET /git/changes` | GitDiffQuery | GitChanges: the files of the diff below |
 * | `GET /git/diff` | GitDiffQuery | a unified diff, as `git apply` takes it, binary files included |
 * | `GET /git/log` | GitLogQuery | GitLog |
 * | `POST /git/commit` | GitCommitRequest | GitCommit: 201; `git.nothing_to_commit` |
 * | `GET /git/bundle` | GitBundleQuery | a git bundle; 204 when `base` has it all |
 *
 * **Which repo.** `repo` is a directory of the repo, below the workspace where it is relative.
 *
 * **Diffs** are of the working tree against a commit, HEAD unless `base` says otherwise, with the files that are
 * not tracked yet and not ignored; or of the commit `head` against it. `path` limits them to a file or a folder.
 * A diff has no length in advance, so an incomplete one shows only by its broken connection.
 *
 * **Names** are bytes, as in `files.ts`: text where they are UTF-8, else `{ "base64": "…" }`; in a query
 * `path=` and `path64=`, which `fileQuery` writes. They are below the repo's root. In a diff they are git's own, in
 * quotes where they must be. Messages and people's names are text: bytes that are no UTF-8 are replaced.
 */
import { z } from "zod"
import { Bytes, FilePath } from "./files.ts"
import {
  GIT_LETTERS,
  GIT_REVISION,
  MAX_GIT_COMMITS,
  MAX_GIT_MESSAGE_CHARS,
  MAX_GIT_NAME_CHARS,
  MAX_GIT_PATHS,
} from "./git-limits.ts"
import { hasNoNul, hasWords } from "./rules.ts"

const RepoPath = z.string().min(1).refine(hasNoNul, "must hold no NUL character")

export const GitRevision = z.string().regex(GIT_REVISION, "must name a commit")
export type GitRevision = z.infer<typeof GitRevision>

export const GitQuery = z.strictObject({ repo: RepoPath })
export type GitQuery = z.infer<typeof GitQuery>

const Letter = z.enum(GIT_LETTERS)

export const GitFile = z.object({
  path: Bytes,
  /** The path that the file was renamed or copied from. */
  from: Bytes.optional(),
  /** The state against HEAD. Both letters are `?` for an untracked file, and either is `U` for one in conflict. */
  index: Letter,
  /** The state against the index. */
  worktree: Letter,
})
export type GitFile = z.infer<typeof GitFile>

export const GitStatus = z.object({
  /** Null before the first commit. */
  commit: z.string().nullable(),
  /** Null when HEAD is at no branch. */
  branch: z.string().nullable(),
  upstream: z.object({ name: z.string(), ahead: z.int(), behind: z.int() }).nullable(),
  files: z.array(GitFile),
  /** Whether there are more files than are listed. */
  isCut: z.boolean(),
})
export type GitStatus = z.infer<typeof GitStatus>

export const GitDiffQuery = z.strictObject({
  repo: RepoPath,
  base: GitRevision.optional(),
  head: GitRevision.optional(),
  path: FilePath.optional(),
})
export type GitDiffQuery = z.infer<typeof GitDiffQuery>

export const GitChange = z.object({
  path: Bytes,
  from: Bytes.optional(),
  status: z.enum(["added", "deleted", "modified", "renamed", "copied", "retyped", "unmerged"]),
  /** The modes as git writes them: 100644, 100755, 120000 for a link, 160000 for a submodule; 000000 for none. */
  oldMode: z.string(),
  newMode: z.string(),
  /** Lines of a binary file are not counted. */
  binary: z.boolean(),
  insertions: z.int(),
  deletions: z.int(),
})
export type GitChange = z.infer<typeof GitChange>

export const GitChanges = z.object({ files: z.array(GitChange), isCut: z.boolean() })
export type GitChanges = z.infer<typeof GitChanges>

export const GitLogQuery = z.strictObject({
  repo: RepoPath,
  /** Default: HEAD. */
  head: GitRevision.optional(),
  /** Leaves out the commits that this one has. */
  base: GitRevision.optional(),
  path: FilePath.optional(),
  limit: z.int().min(1).max(MAX_GIT_COMMITS).optional(),
})
export type GitLogQuery = z.infer<typeof GitLogQuery>

const Person = z.object({ name: z.string(), email: z.string() })

export const GitCommit = z.object({
  id: z.string(),
  parents: z.array(z.string()),
  author: Person,
  authoredAt: z.iso.datetime({ offset: true }),
  committer: Person,
  committedAt: z.iso.datetime({ offset: true }),
  message: z.string(),
})
export type GitCommit = z.infer<typeof GitCommit>

/** The commits, newest first. */
export const GitLog = z.object({ commits: z.array(GitCommit), isCut: z.boolean() })
export type GitLog = z.infer<typeof GitLog>

/** A name or an address without the characters at which git ends it, or that git drops. */
const PersonText = z
  .string()
  .max(MAX_GIT_NAME_CHARS)
  .regex(/^[^\0\n<>]*[^\0\n<>\s.,:;"'\\][^\0\n<>]*$/, "must be a name, without < and >")

/** Hooks of the repo run. Without `all` and `paths`, the index is committed. */
export const GitCommitRequest = z.strictObject({
  repo: RepoPath,
  message: z.string().max(MAX_GIT_MESSAGE_CHARS).refine(hasWords, "must hold some words"),
  /** Default: the author of git's configuration, or else the sandbox's user. */
  author: z.strictObject({ name: PersonText, email: PersonText }).optional(),
  /** Commits everything that has changed, untracked files included. */
  all: z.literal(true).optional(),
  /** Commits these files and folders and nothing else, whatever the index holds. */
  paths: z.array(FilePath).min(1).max(MAX_GIT_PATHS).optional(),
})
export type GitCommitRequest = z.infer<typeof GitCommitRequest>

export const GitBundleQuery = z.strictObject({
  repo: RepoPath,
  /** A branch or a tag. Default: HEAD, with the branch that it is at. */
  ref: GitRevision.optional(),
  /** A commit that the receiver has, with all before it. */
  base: GitRevision.optional(),
})
export type GitBundleQuery = z.infer<typeof GitBundleQuery>
