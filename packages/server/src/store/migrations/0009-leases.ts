import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** Gives leases a source and a subject as data, and marks sandboxes and sessions whose workspace was removed. */
export const leases: Migration = {
  name: "0009-leases",
  up: async (trx) => {
    // Leases of connections ended with the server that had them.
    await sql`DELETE FROM leases WHERE connection IS NOT NULL`.execute(trx)
    await sql`ALTER TABLE leases DROP COLUMN connection`.execute(trx)
    await sql`ALTER TABLE leases ADD COLUMN source TEXT NOT NULL DEFAULT 'sandbox'`.execute(trx)
    await sql`ALTER TABLE leases ADD COLUMN subject TEXT`.execute(trx)
    await sql`ALTER TABLE leases ADD COLUMN yields INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`UPDATE leases SET source = 'person' WHERE kind = 'hold'`.execute(trx)
    for (const { kind, words, source, yields } of HOLDERS)
      await sql`
        UPDATE leases
        SET source = ${source}, yields = ${yields}, subject = substr(holder, ${words.length + 1})
        WHERE kind = ${kind} AND substr(holder, 1, ${words.length}) = ${words}`.execute(trx)
    await sql`CREATE INDEX leases_subject ON leases (subject)`.execute(trx)
    await sql`
      ALTER TABLE sandboxes ADD COLUMN detached INTEGER NOT NULL DEFAULT 0`.execute(trx)
    await sql`
      UPDATE sandboxes SET detached = 1
      WHERE phase = 'quarantined'
        OR phase = 'gone' AND workspace NOT IN (SELECT slug FROM workspaces)`.execute(trx)
    await sql`
      UPDATE sessions SET state = 'closed'
      WHERE workspace NOT IN (SELECT slug FROM workspaces)`.execute(trx)
  },
}

/** The holder texts by which leases were told apart; the id of the subject follows them. */
const HOLDERS = [
  { kind: "prompt", words: "prompt ", source: "prompt", yields: 0 },
  { kind: "prompt", words: "running prompt ", source: "sandbox", yields: 0 },
  { kind: "exec", words: "command ", source: "sandbox", yields: 0 },
  { kind: "terminal", words: "terminal ", source: "sandbox", yields: 0 },
  { kind: "session", words: "session ", source: "session", yields: 1 },
  { kind: "session", words: "whoever watches ", source: "watcher", yields: 0 },
]
