import { fileQuery } from "@berth/protocol/files"
import {
  type GitBundleQuery,
  GitChanges,
  GitCommit,
  type GitCommitRequest,
  type GitDiffQuery,
  GitLog,
  type GitLogQuery,
  GitStatus,
} from "@berth/protocol/git"
import { type CallOptions, call, stream } from "./call.ts"
import type { Place } from "./place.ts"

/** Git in a sandbox. `repo` is a directory of the repo, below the workspace where it is relative. */
export interface Git {
  status(repo: string, options?: CallOptions): Promise<GitStatus>
  /** A unified diff, as `git apply` takes it: untracked and binary files included. */
  diff(repo: string, options?: DiffOptions): Promise<string>
  /** The same as bytes, of any size. */
  diffStream(repo: string, options?: DiffOptions): Promise<ReadableStream<Uint8Array>>
  /** The files of the diff. */
  changes(repo: string, options?: DiffOptions): Promise<GitChanges>
  log(repo: string, options?: CallOptions & Omit<GitLogQuery, "repo">): Promise<GitLog>
  commit(
    repo: string,
    message: string,
    options?: CallOptions & Omit<GitCommitRequest, "repo" | "message">,
  ): Promise<GitCommit>
  /** A git bundle; it is empty when `base` has everything. */
  bundle(
    repo: string,
    options?: CallOptions & Omit<GitBundleQuery, "repo">,
  ): Promise<ReadableStream<Uint8Array>>
}

export type DiffOptions = CallOptions & Omit<GitDiffQuery, "repo">

/** Git looks at every file of a large tree, and a commit's hooks may be slow. */
const GIT_DEADLINE_MS = 60_000

export const gitOf = ({ connection, at }: Place): Git => {
  const diffStream: Git["diffStream"] = (repo, { signal, deadlineMs, ...query } = {}) => {
    const path = at("/git/diff", fileQuery({ repo, ...query }))
    return stream(connection, { path }, { signal, deadlineMs: deadlineMs ?? GIT_DEADLINE_MS })
  }
  return {
    diffStream,
    diff: async (repo, options) => await new Response(await diffStream(repo, options)).text(),
    status: (repo, { signal, deadlineMs = GIT_DEADLINE_MS } = {}) => {
      const path = at("/git/status", fileQuery({ repo }))
      return call(connection, { path }, GitStatus, { signal, deadlineMs })
    },
    changes: (repo, { signal, deadlineMs = GIT_DEADLINE_MS, ...query } = {}) => {
      const path = at("/git/changes", fileQuery({ repo, ...query }))
      return call(connection, { path }, GitChanges, { signal, deadlineMs })
    },
    log: (repo, { signal, deadlineMs = GIT_DEADLINE_MS, ...query } = {}) => {
      const path = at("/git/log", fileQuery({ repo, ...query }))
      return call(connection, { path }, GitLog, { signal, deadlineMs })
    },
    commit: (repo, message, { signal, deadlineMs = GIT_DEADLINE_MS, ...request } = {}) => {
      const json: GitCommitRequest = { repo, message, ...request }
      const ask = { method: "POST", path: at("/git/commit"), json } as const
      return call(connection, ask, GitCommit, { signal, deadlineMs })
    },
    bundle: (repo, { signal, deadlineMs = GIT_DEADLINE_MS, ...query } = {}) => {
      const path = at("/git/bundle", fileQuery({ repo, ...query }))
      return stream(connection, { path }, { signal, deadlineMs })
    },
  }
}
