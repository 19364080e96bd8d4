import { Slug } from "@berth/protocol/ids"
import type { Kysely } from "kysely"
import type { Database } from "../database.ts"

/** Adds a workspace whose spec takes about `bytes`. */
export const addWorkspace = async (
  db: Kysely<Database>,
  slug: string,
  bytes = 0,
): Promise<void> => {
  const spec = JSON.stringify({ filler: "x".repeat(bytes) })
  await db
    .insertInto("workspaces")
    .values({ slug: Slug.parse(slug), spec, created_at_ms: 1, updated_at_ms: 1 })
    .execute()
}

/** Adds enough workspaces to fill some hundred pages of the table's tree. */
export const addManyWorkspaces = (db: Kysely<Database>): Promise<void> =>
  db.transaction().execute(async (trx) => {
    for (let n = 0; n < 1_000; n++) await addWorkspace(trx, `w${n}`, 1_000)
  })

export const workspaceSlugs = async (db: Kysely<Database>): Promise<string[]> =>
  (await db.selectFrom("workspaces").select("slug").orderBy("slug").execute()).map(
    ({ slug }) => slug,
  )
