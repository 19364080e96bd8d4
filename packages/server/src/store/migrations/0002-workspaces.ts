import { sql } from "kysely"
import type { Migration } from "./migration.ts"

export const workspaces: Migration = {
  name: "0002-workspaces",
  up: async (trx) => {
    await sql`
      CREATE TABLE workspaces (
        slug TEXT NOT NULL PRIMARY KEY,
        spec TEXT NOT NULL CHECK (json_valid(spec)),
        created_at_ms INTEGER NOT NULL,
        updated_at_ms INTEGER NOT NULL
      ) STRICT`.execute(trx)
  },
}
