import type { Kysely } from "kysely"
import type { Database } from "../../store/database.ts"
import { type BeginStop, openBeginStop } from "./begin-stop.ts"
import type { Clock } from "./clock.ts"
import { type FoundRows, findRows } from "./found-rows.ts"
import { changeRows, type RowChanges } from "./row-changes.ts"

/** The store's rows of sandboxes. */
export interface Rows extends FoundRows, RowChanges, BeginStop {}

export const openRows = (db: Kysely<Database>, clock: Clock): Rows => ({
  ...findRows(db),
  ...changeRows(db, clock),
  ...openBeginStop(db, clock),
})
