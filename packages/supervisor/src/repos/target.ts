/** What a plan's ref turned out to be. */
export interface Target {
  readonly commit: string
  /** It is checked out as a local branch that tracks origin's; without one, HEAD is detached. */
  readonly branch: string | undefined
}

/** Where a repo comes from. */
export interface Source {
  /** Makes the repo at `directory`, which does not exist yet, without files. Undefined: there is no commit in it. */
  clone(directory: string): Promise<Target | undefined>
  /** Brings what is new into the repo at `directory`; its files stay as they are. */
  fetch(directory: string): Promise<Target | undefined>
  /** Brings the submodules of the checkout at `directory`, where it has any, and returns their directories. */
  bringSubmodules(
    directory: string,
    commit: string,
    warn: (message: string) => void,
  ): Promise<readonly string[]>
}

export const trackingRef = (branch: string): string => `refs/remotes/origin/${branch}`
