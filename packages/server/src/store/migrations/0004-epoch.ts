import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** The epoch, by which a database that was restored from a backup is recognised: see ../epoch.ts. */
export const epoch: Migration = {
  name: "0004-epoch",
  up: async (trx) => {
    await sql`ALTER TABLE installation ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0`.execute(trx)
  },
}
