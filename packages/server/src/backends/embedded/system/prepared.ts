/** A directory or file of the host that appears inside. */
export interface Bind {
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
}

/** A system tree that sandboxes can be started on. Nothing in it is written to, ever. */
export interface PreparedSystem {
  /** Names the tree: its directory's last part. */
  readonly key: string
  /** The directory that becomes `/` inside, read-only. */
  readonly root: string
  /** What is bound into it. */
  readonly binds: readonly Bind[]
}
