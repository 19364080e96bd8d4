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

/** The rows that the upgrade test writes into a database at each version, one entry for each migration. */
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
  {
    rows: {
      sandboxes: [
        {
          id: "sb-0123456789abcdefghjk",
          workspace: "shop",
          config_hash: "ab",
          mode: "fresh",
          phase: "ready",
          phase_at_ms: 2,
          created_at_ms: 1,
          stop_cause: null,
          stop_reason: null,
        },
      ],
      leases: [
        {
          id: "ls-0123456789abcdefghjk",
          sandbox: "sb-0123456789abcdefghjk",
          kind: "hold",
          holder: "ada",
          acquired_at_ms: 3,
          ttl_ms: null,
          connection: null,
        },
      ],
      decisions: [
        {
          number: 7,
          sandbox: "sb-0123456789abcdefghjk",
          at_ms: 4,
          action: "keep",
          reason: "in use",
        },
      ],
    },
  },
  { rows: {} },
  {
    rows: {
      sandboxes: [
        {
          id: "sb-1123456789abcdefghjk",
          workspace: "blog",
          config_hash: "cd",
          mode: "fresh",
          phase: "booting",
          phase_at_ms: 2,
          created_at_ms: 1,
          stop_cause: null,
          stop_reason: null,
          warnings: '["no cache"]',
        },
      ],
    },
  },
  {
    rows: {
      sessions: [
        {
          id: "ses-0123456789abcdefghjk",
          workspace: "shop",
          agent: '{"kind":"shell"}',
          state: "open",
          on_interrupt: "wait",
          created_at_ms: 5,
          last_event: 2,
        },
      ],
      prompts: [
        {
          id: "pr-0123456789abcdefghjk",
          session: "ses-0123456789abcdefghjk",
          number: 1,
          text: "make test",
          attachments: '["log.txt"]',
          key: "k",
          digest: "ef",
          state: "running",
          reason: null,
          sandbox: "sb-0123456789abcdefghjk",
          deadline_ms: 60_000,
          created_at_ms: 6,
          started_at_ms: 7,
          ended_at_ms: null,
          continues: null,
          stop_requested: 0,
        },
      ],
      attachments: [
        { prompt: "pr-0123456789abcdefghjk", name: "log.txt", content: Buffer.from("a\0b") },
      ],
      events: [
        {
          session: "ses-0123456789abcdefghjk",
          sequence: 1,
          at_ms: 8,
          type: "warning",
          json: "{}",
        },
      ],
    },
  },
  {
    rows: {
      cuts: [
        {
          session: "ses-0123456789abcdefghjk",
          prompt: "pr-0123456789abcdefghjk",
          bytes: 9,
          events: 2,
          told_bytes: 4,
        },
      ],
    },
  },
  { rows: {} },
  {
    rows: {
      leases: [
        {
          id: "ls-1123456789abcdefghjk",
          sandbox: "sb-0123456789abcdefghjk",
          kind: "session",
          source: "session",
          subject: "ses-0123456789abcdefghjk",
          yields: 1,
          holder: "session ses-0123456789abcdefghjk",
          acquired_at_ms: 3,
          ttl_ms: 180_000,
        },
      ],
      sandboxes: [
        {
          id: "sb-2123456789abcdefghjk",
          workspace: "shop",
          config_hash: "ef",
          mode: "fresh",
          phase: "gone",
          phase_at_ms: 2,
          created_at_ms: 1,
          detached: 1,
          stop_cause: "person",
          stop_reason: "a person removed it",
          warnings: "[]",
        },
      ],
    },
    // Both have a test in 0009-leases.test.ts.
    rewrites: ["leases.connection", "sessions.state"],
  },
  {
    rows: {
      workspaces: [
        {
          slug: "shop-copy",
          spec: "{}",
          created_at_ms: 1,
          updated_at_ms: 2,
          booted: 1,
          forking: 1,
        },
      ],
    },
  },
  {
    rows: {
      prompts: [
        {
          id: "pr-1123456789abcdefghjk",
          session: "ses-0123456789abcdefghjk",
          number: 2,
          text: "go on",
          attachments: "[]",
          digest: "cd",
          state: "stopped",
          reason: "its sandbox did not take the stop",
          sandbox: "sb-0123456789abcdefghjk",
          created_at_ms: 9,
          started_at_ms: 10,
          ended_at_ms: 11,
          stop_requested: 1,
          stop_overdue: 1,
        },
      ],
    },
  },
]
