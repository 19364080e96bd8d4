/** Rows by table, in the columns of the version that they belong to. */
export type Rows = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>

interface Sample {
  /** Rows that this version's code could have written, put in as soon as the migration has run. */
  readonly rows: Rows
  /**
   * Tables ("leases") and columns ("workspaces.spec") that this migration rewrites or drops on purpose.
   * The upgrade test leaves them out, so the migration needs a test of its own for them.
   */
  readonly rewrites?: readonly string[]
}

/** What the upgrade test writes into a database at each version, one entry a migration. */
export const SAMPLES: readonly Sample[] = [
  { rows: {} },
  {
    rows: {
      workspaces: [
        { slug: "shop", spec: '{"repos":["a","b"]}', created_at_ms: 1, updated_at_ms: 2 },
        { slug: "blog-2", spec: "{}", created_at_ms: 1_700_000_000_000, updated_at_ms: 0 },
      ],
    },
  },
]
