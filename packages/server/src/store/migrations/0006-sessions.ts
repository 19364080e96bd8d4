import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** Sessions, their prompts and their events. */
export const sessions: Migration = {
  name: "0006-sessions",
  up: async (trx) => {
    // The last stored event of each sandbox, which the sandbox may have forgotten.
    await sql`ALTER TABLE sandboxes ADD COLUMN last_seen INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`
      CREATE TABLE sessions (
        id TEXT NOT NULL PRIMARY KEY,
        workspace TEXT NOT NULL,
        agent TEXT NOT NULL CHECK (json_valid(agent)),
        state TEXT NOT NULL,
        on_interrupt TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        last_event INTEGER NOT NULL DEFAULT 0
      ) STRICT`.execute(trx)
    await sql`CREATE INDEX sessions_workspace ON sessions (workspace)`.execute(trx)
    await sql`
      CREATE TABLE prompts (
        id TEXT NOT NULL PRIMARY KEY,
        session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        attachments TEXT NOT NULL CHECK (json_valid(attachments)),
        key TEXT,
        digest TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT,
        sandbox TEXT,
        deadline_ms INTEGER,
        created_at_ms INTEGER NOT NULL,
        started_at_ms INTEGER,
        ended_at_ms INTEGER,
        continues TEXT,
        stop_requested INTEGER NOT NULL DEFAULT 0,
        UNIQUE (session, number),
        UNIQUE (session, key)
      ) STRICT`.execute(trx)
    await sql`
      CREATE INDEX prompts_pending ON prompts (session, number)
      WHERE state IN ('queued', 'running')`.execute(trx)
    await sql`
      CREATE TABLE attachments (
        prompt TEXT NOT NULL REFERENCES prompts (id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        content BLOB NOT NULL,
        PRIMARY KEY (prompt, name)
      ) STRICT, WITHOUT ROWID`.execute(trx)
    await sql`
      CREATE TABLE events (
        session TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        at_ms INTEGER NOT NULL,
        type TEXT NOT NULL,
        json TEXT NOT NULL,
        PRIMARY KEY (session, sequence)
      ) STRICT, WITHOUT ROWID`.execute(trx)
  },
}
