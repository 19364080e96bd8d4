import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** A prompt can end before its sandbox confirms its stop. */
export const overdueStops: Migration = {
  name: "0011-overdue-stops",
  up: async (trx) => {
    await sql`ALTER TABLE prompts ADD COLUMN stop_overdue INTEGER NOT NULL DEFAULT 0`.execute(trx)
  },
}
