/** The commit and branch that a plan's ref resolved to. */
export interface Target {
  readonly commit: string
  /** Checked out as a local branch that tracks origin's. Undefined: HEAD is detached. */
  readonly branch: string | undefined
}

/** The origin of a repo: a remote, or the host. */
export interface Source {
  /** Makes the repo at `directory`, which does not exist yet, without files. Returns undefined if it has no commit. */
  clone(directory: string): Promise<Target | undefined>
  /** Fetches new commits into the repo at `directory`. Its files stay as they are. */
  fetch(directory: string): Promise<Target | undefined>
  /** Fetches the submodules of the checkout at `directory`, and returns their directories. */
  bringSubmodules(
    directory: string,
    commit: string,
    warn: (message: string) => void,
  ): Promise<readonly string[]>
}

export const trackingRef = (branch: string): string => `refs/remotes/origin/${branch}`
