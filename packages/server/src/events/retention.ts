import type { Event } from "@berth/protocol/event"
import { type Kysely, sql } from "kysely"
import type { Database } from "../store/database.ts"

/**
 * Removes what is older. In its place stands one event that says so, under the last of the removed numbers, so that
 * a reader of the whole log is told of the gap.
 */
export const removeOldEvents = async (db: Kysely<Database>, beforeMs: number): Promise<void> => {
  const { rows: old } = await sql<{ session: string; last: number }>`
    SELECT session, max(sequence) AS last FROM events
    WHERE at_ms < ${beforeMs} GROUP BY session
    HAVING count(*) > 1`.execute(db)
  for (const { session, last } of old) {
    const event: Event = {
      sequence: last,
      at: new Date(beforeMs).toISOString(),
      body: {
        type: "gap",
        reason: "what happened before was removed, as it was older than is kept",
      },
    }
    await db.transaction().execute(async (trx) => {
      await sql`DELETE FROM events WHERE session = ${session} AND sequence < ${last}`.execute(trx)
      await sql`
        UPDATE events SET type = 'gap', at_ms = ${beforeMs - 1}, json = ${JSON.stringify(event)}
        WHERE session = ${session} AND sequence = ${last}`.execute(trx)
    })
  }
}
