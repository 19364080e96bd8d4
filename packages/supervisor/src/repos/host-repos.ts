/** Repos on the host. The server sends the missing objects. */
export interface HostRepos {
  /**
   * Asks the server for a repo, which is written to `path` as a git bundle with everything that `ref` needs beyond the
   * commits in `have`. Returns the ref's commit. If `have` holds that commit, no file is written.
   */
  fetch(wanted: WantedRepo, signal: AbortSignal): Promise<FetchedRepo>
}

export interface WantedRepo {
  /** The repo's directory in the plan. */
  readonly repo: string
  readonly ref: string | undefined
  readonly have: readonly string[]
  /** The submodule that is wanted; undefined: the repo itself. */
  readonly submodule?: WantedSubmodule | undefined
  readonly path: string
}

export interface WantedSubmodule {
  /** A commit of the repo. */
  readonly of: string
  /** The submodule's path in that commit. A nested submodule has one path for each level. */
  readonly paths: readonly string[]
}

export interface FetchedRepo {
  readonly commit: string
  /** The branch that the ref names; undefined for a tag or a commit. */
  readonly branch: string | undefined
  /** False if the commits in `have`, or their ancestors, included the commit. */
  readonly isBundled: boolean
  /** The commits of a shallow repo whose parents are not sent. */
  readonly shallow?: readonly string[] | undefined
  /** The author that git on the host would put into a commit. */
  readonly authorName?: string | undefined
  readonly authorEmail?: string | undefined
  /** A submodule's address on a network. */
  readonly url?: string | undefined
  /** Why the host lacks a submodule's commit, which is not sent then. */
  readonly absent?: string | undefined
}
