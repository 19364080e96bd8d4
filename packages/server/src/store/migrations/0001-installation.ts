import { newId } from "@berth/protocol/ids"
import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** The id that marks everything this data directory owns. Made here, so that it can never change. */
export const installation: Migration = {
  name: "0001-installation",
  up: async (trx) => {
    await sql`
      CREATE TABLE installation (
        only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
        id TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL
      ) STRICT`.execute(trx)
    await sql`
      INSERT INTO installation (id, created_at_ms)
      VALUES (${newId.installation()}, ${Date.now()})`.execute(trx)
  },
}
