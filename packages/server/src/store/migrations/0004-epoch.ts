import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** Tells a database that was put back from a backup: see ../epoch.ts. */
export const epoch: Migration = {
  name: "0004-epoch",
  up: async (trx) => {
    await sql`ALTER TABLE installation ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0`.execute(trx)
  },
}
