import { sql } from "kysely"
import type { Migration } from "./migration.ts"

/** A workspace that is being forked has its row before its files. */
export const forks: Migration = {
  name: "0010-forks",
  up: async (trx) => {
    await sql`ALTER TABLE workspaces ADD COLUMN forking INTEGER NOT NULL DEFAULT 0`.execute(trx)
  },
}
