import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** The bytes of events that each session holds and each sandbox has added, and the output that was left out. */
export const budgets: Migration = {
  name: "0007-budgets",
  up: async (trx) => {
    await sql`ALTER TABLE sessions ADD COLUMN event_bytes INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`ALTER TABLE sessions ADD COLUMN rest_file INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`ALTER TABLE sessions ADD COLUMN rest_bytes INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`
      UPDATE sessions SET event_bytes = (
        SELECT coalesce(sum(octet_length(json)), 0) FROM events WHERE session = sessions.id
      )`.execute(trx)
    await sql`ALTER TABLE sandboxes ADD COLUMN said_bytes INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`ALTER TABLE sandboxes ADD COLUMN said_at_ms INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`
      CREATE TABLE cuts (
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        prompt TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        events INTEGER NOT NULL,
        told_bytes INTEGER NOT NULL,
        PRIMARY KEY (session, prompt)
      ) STRICT, WITHOUT ROWID`.execute(trx)
  },
}
