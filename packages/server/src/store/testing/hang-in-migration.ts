import { sql } from "kysely"
import { MIGRATIONS } from "../migrations/list.ts"
import { openStore } from "../open.ts"

const [, , dataDir = ""] = process.argv

/** Opens the store with one migration more, which changes every table, reports that, and never ends. */
await openStore({
  dataDir,
  migrations: [
    ...MIGRATIONS,
    {
      name: "hangs-half-way",
      up: async (trx) => {
        await sql`CREATE TABLE half_way (n INTEGER)`.execute(trx)
        await sql`DELETE FROM workspaces`.execute(trx)
        console.log(JSON.stringify("half-way"))
        process.stdin.resume()
        await new Promise<never>(() => {})
      },
    },
  ],
})
