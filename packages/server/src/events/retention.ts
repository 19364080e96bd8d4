import { setImmediate as soon } from "node:timers/promises"
import type { Event } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import type { Kysely } from "kysely"
import type { Database } from "../store/database.ts"

/** Removed at a time: nothing else happens meanwhile. */
export const BATCH_EVENTS = 500

/**
 * Removes what is older. In its place stands one event that says so, under the last of the removed numbers, so that
 * a reader of the whole log is told of the gap. That holds after each batch, wherever it ends. Others have their
 * turn between two.
 */
export const removeOldEvents = async (db: Kysely<Database>, beforeMs: number): Promise<void> => {
  for (const { id } of await db.selectFrom("sessions").select("id").execute())
    do await soon()
    while (await removeBatch(db, id, beforeMs))
}

/** True: there may be more. */
const removeBatch = async (
  db: Kysely<Database>,
  session: SessionId,
  beforeMs: number,
): Promise<boolean> => {
  // Of most sessions nothing is old: two events say so.
  if ((await oldest(db, session, { beforeMs, count: 2 })).length < 2) return false
  const old = await oldest(db, session, { beforeMs, count: BATCH_EVENTS })
  const last = old.at(-1)
  if (last === undefined) return false
  const event: Event = {
    sequence: last,
    at: new Date(beforeMs).toISOString(),
    body: {
      type: "gap",
      reason: "what happened before was removed, as it was older than is kept",
    },
  }
  await db.transaction().execute(async (trx) => {
    await trx
      .deleteFrom("events")
      .where("session", "=", session)
      .where("sequence", "<", last)
      .execute()
    await trx
      .updateTable("events")
      .set({ type: "gap", at_ms: beforeMs - 1, json: JSON.stringify(event) })
      .where("session", "=", session)
      .where("sequence", "=", last)
      .execute()
  })
  return old.length === BATCH_EVENTS
}

/** The numbers of the first so many events, up to the first that is not old. */
const oldest = async (
  db: Kysely<Database>,
  session: SessionId,
  { beforeMs, count }: { readonly beforeMs: number; readonly count: number },
): Promise<number[]> => {
  const rows = await db
    .selectFrom("events")
    .select(["sequence", "at_ms"])
    .where("session", "=", session)
    .orderBy("sequence")
    .limit(count)
    .execute()
  const young = rows.findIndex(({ at_ms }) => at_ms >= beforeMs)
  return (young === -1 ? rows : rows.slice(0, young)).map(({ sequence }) => sequence)
}
