import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** An index of the agents' asks and their answers: there are few among the many events of a session. */
export const asks: Migration = {
  name: "0008-asks",
  up: async (trx) => {
    await sql`
      CREATE INDEX events_asks ON events (session, sequence)
      WHERE type IN ('permission.asked', 'permission.answered', 'question.asked', 'question.answered')`.execute(
      trx,
    )
  },
}
