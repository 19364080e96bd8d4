/** A directory or file of the host that appears inside. */
export interface Bind {
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
}

/** A system tree that sandboxes can be started on. It is never written to. */
export interface PreparedSystem {
  /** The tree's name: the last part of its directory. */
  readonly key: string
  /** The directory that becomes `/` inside, read-only. */
  readonly root: string
  /** The directories and files that are bound into the tree. */
  readonly binds: readonly Bind[]
}
