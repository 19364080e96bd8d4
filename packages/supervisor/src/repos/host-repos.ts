/** Repos that lie on the host: the server sends what is missing. */
export interface HostRepos {
  /**
   * Asks the server for a repo and has it written to `path`, as a git bundle with everything that `ref`
   * needs beyond the commits in `have`. It says which commit the ref is; one that they hold brings no file.
   */
  fetch(wanted: WantedRepo, signal: AbortSignal): Promise<FetchedRepo>
}

export interface WantedRepo {
  /** Its directory in the plan. */
  readonly repo: string
  readonly ref: string | undefined
  readonly have: readonly string[]
  /** Of the repo; without it, the repo itself is wanted. */
  readonly submodule?: WantedSubmodule | undefined
  readonly path: string
}

export interface WantedSubmodule {
  /** A commit of the repo. */
  readonly of: string
  /** Its path there; for one inside of others, a path in each. */
  readonly paths: readonly string[]
}

export interface FetchedRepo {
  readonly commit: string
  /** The branch that the ref names; undefined for a tag or a commit. */
  readonly branch: string | undefined
  /** False when `have`, with what comes before it, held the commit already. */
  readonly isBundled: boolean
  /** The commits of a shallow repo whose parents do not come along. */
  readonly shallow?: readonly string[] | undefined
  /** The author that git on the host would name for a commit. */
  readonly authorName?: string | undefined
  readonly authorEmail?: string | undefined
  /** Of a submodule: its address on a network. */
  readonly url?: string | undefined
  /** Of a submodule: why the host does not have its commit, which was not sent then. */
  readonly absent?: string | undefined
}
