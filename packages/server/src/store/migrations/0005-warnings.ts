import { sql } from "kysely"
import type { Migration } from "./migration.ts"

export const warnings: Migration = {
  name: "0005-warnings",
  up: async (trx) => {
    await sql`
      ALTER TABLE sandboxes ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]'
      CHECK (json_valid(warnings))`.execute(trx)
  },
}
