import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** Finds the asks of agents, and their answers, among the events of a session: there are few, and events are many. */
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
