import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** Sandboxes, their leases, and why each was kept or stopped. */
export const sandboxes: Migration = {
  name: "0003-sandboxes",
  up: async (trx) => {
    await sql`ALTER TABLE workspaces ADD COLUMN booted INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`ALTER TABLE workspaces ADD COLUMN failed_boots INTEGER NOT NULL DEFAULT 0`.execute(
      trx,
    )
    await sql`ALTER TABLE workspaces ADD COLUMN failed_hash TEXT`.execute(trx)
    await sql`ALTER TABLE workspaces ADD COLUMN failed_why TEXT`.execute(trx)
    await sql`
      CREATE TABLE sandboxes (
        id TEXT NOT NULL PRIMARY KEY,
        workspace TEXT NOT NULL,
        config_hash TEXT NOT NULL,
        phase TEXT NOT NULL,
        phase_at_ms INTEGER NOT NULL,
        mode TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        stop_cause TEXT,
        stop_reason TEXT
      ) STRICT`.execute(trx)
    // A workspace has at most one sandbox that new uses go to, even if several callers ask at the same time.
    await sql`
      CREATE UNIQUE INDEX sandboxes_current ON sandboxes (workspace)
      WHERE phase IN ('creating', 'booting', 'ready')`.execute(trx)
    await sql`CREATE INDEX sandboxes_workspace ON sandboxes (workspace)`.execute(trx)
    await sql`
      CREATE TABLE leases (
        id TEXT NOT NULL PRIMARY KEY,
        sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        holder TEXT NOT NULL,
        acquired_at_ms INTEGER NOT NULL,
        ttl_ms INTEGER,
        connection TEXT
      ) STRICT`.execute(trx)
    await sql`CREATE INDEX leases_sandbox ON leases (sandbox)`.execute(trx)
    await sql`
      CREATE TABLE decisions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        sandbox TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        action TEXT NOT NULL,
        reason TEXT NOT NULL
      ) STRICT`.execute(trx)
    await sql`CREATE INDEX decisions_sandbox ON decisions (sandbox, number)`.execute(trx)
  },
}
