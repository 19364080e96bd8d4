import { setImmediate as soon } from "node:timers/promises"
import type { Event } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import { CompiledQuery, type Kysely, sql } from "kysely"
import type { Database } from "../store/database.ts"
import { SESSION_BYTES } from "./output-budget.ts"

/** The bounds of a removal step, in events and in bytes: nothing else happens meanwhile. */
export const BATCH_EVENTS = 500
const BATCH_BYTES = 2 * 1024 * 1024

/**
 * A session that holds more than this while nothing runs in it gives up its oldest events, so that a prompt has room.
 */
export const CROWDED_BYTES = (SESSION_BYTES / 4) * 3
export const ROOMY_BYTES = SESSION_BYTES / 2

/** The bound on all sessions together. The one that holds most gives up its oldest events first. */
export const TOTAL_BYTES = 2 * 1024 * 1024 * 1024

const TOO_OLD = "what happened before was removed, as it was older than is kept"
const TOO_MUCH = "what happened before was removed, as it was more than is kept"

/** Bytes are counted as in measure.ts. */
const OLDEST = `
  SELECT sequence, at_ms, octet_length(json) - length(sequence) + 7 AS bytes FROM events
  WHERE session = ? ORDER BY sequence LIMIT ?`

interface Oldest {
  readonly sequence: number
  readonly at_ms: number
  readonly bytes: number
}

/**
 * Removes older events. One event that says so takes their place, under the last of the removed numbers, so that a
 * reader of the whole log is told of the gap. That holds after each batch, wherever it ends. Others have their turn
 * between two batches.
 */
export const removeOldEvents = async (db: Kysely<Database>, beforeMs: number): Promise<void> => {
  for (const { id } of await db.selectFrom("sessions").select("id").execute())
    do await soon()
    while (await removeOldBatch(db, id, beforeMs))
}

/** Removes the oldest events of sessions that hold too much, as `removeOldEvents` does. */
export const removeBeyondSize = async (
  db: Kysely<Database>,
  nowMs: number,
  totalBytes = TOTAL_BYTES,
): Promise<void> => {
  const crowded = await db
    .selectFrom("sessions")
    .select(["id", "event_bytes"])
    .where("event_bytes", ">", CROWDED_BYTES)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("prompts")
            .select("prompts.id")
            .whereRef("prompts.session", "=", "sessions.id")
            .where("prompts.state", "in", ["queued", "running"]),
        ),
      ),
    )
    .execute()
  for (const { id, event_bytes } of crowded)
    await removeBytes(db, id, event_bytes - ROOMY_BYTES, nowMs)
  for (;;) {
    const { held } = await db
      .selectFrom("sessions")
      .select(({ fn }) => fn.coalesce(fn.sum<number>("event_bytes"), sql<number>`0`).as("held"))
      .executeTakeFirstOrThrow()
    if (held <= totalBytes) return
    const largest = await db
      .selectFrom("sessions")
      .select(["id", "event_bytes"])
      .orderBy("event_bytes", "desc")
      .limit(1)
      .executeTakeFirst()
    const wanted = Math.min(held - totalBytes, (largest?.event_bytes ?? 0) / 2)
    if (largest === undefined || (await removeBytes(db, largest.id, wanted, nowMs)) === 0) return
  }
}

/** Removes the oldest events until so many bytes are gone. Returns the bytes removed. */
const removeBytes = async (
  db: Kysely<Database>,
  session: SessionId,
  wanted: number,
  nowMs: number,
): Promise<number> => {
  let removed = 0
  while (removed < wanted) {
    await soon()
    const batch = bounded(await oldest(db, session, BATCH_EVENTS), wanted - removed)
    if (batch.length < 2) return removed
    await removeBatch(db, session, batch, { atMs: nowMs, reason: TOO_MUCH })
    removed += sum(batch)
  }
  return removed
}

/** Removes a batch of old events. Returns true if there may be more. */
const removeOldBatch = async (
  db: Kysely<Database>,
  session: SessionId,
  beforeMs: number,
): Promise<boolean> => {
  const old = (events: readonly Oldest[]) => {
    const young = events.findIndex(({ at_ms }) => at_ms >= beforeMs)
    return young === -1 ? events : events.slice(0, young)
  }
  // Two events are enough to see that a session holds nothing old, as most do.
  if (old(await oldest(db, session, 2)).length < 2) return false
  const all = old(await oldest(db, session, BATCH_EVENTS))
  const batch = bounded(all, BATCH_BYTES)
  await removeBatch(db, session, batch, { atMs: beforeMs - 1, reason: TOO_OLD })
  return batch.length < all.length || all.length === BATCH_EVENTS
}

/** The first events that have so many bytes together, and no more than a batch; at least two, if there are. */
const bounded = (events: readonly Oldest[], wantedBytes: number): readonly Oldest[] => {
  let bytes = 0
  const end = events.findIndex((event, place) => {
    bytes += event.bytes
    return place > 0 && bytes >= Math.min(wantedBytes, BATCH_BYTES)
  })
  return end === -1 ? events : events.slice(0, end + 1)
}

const removeBatch = async (
  db: Kysely<Database>,
  session: SessionId,
  batch: readonly Oldest[],
  { atMs, reason }: { readonly atMs: number; readonly reason: string },
): Promise<void> => {
  const last = batch.at(-1)?.sequence ?? 0
  const at = new Date(atMs).toISOString()
  const event: Event = { sequence: last, at, body: { type: "gap", reason } }
  const json = JSON.stringify(event)
  await db.transaction().execute(async (trx) => {
    await trx
      .deleteFrom("events")
      .where("session", "=", session)
      .where("sequence", "<", last)
      .execute()
    await trx
      .updateTable("events")
      .set({ type: "gap", at_ms: atMs, json })
      .where("session", "=", session)
      .where("sequence", "=", last)
      .execute()
    await trx
      .updateTable("sessions")
      .set(({ fn, val, eb }) => ({
        event_bytes: fn("max", [val(0), eb("event_bytes", "-", sum(batch) - json.length)]),
      }))
      .where("id", "=", session)
      .execute()
  })
}

const oldest = async (
  db: Kysely<Database>,
  session: SessionId,
  count: number,
): Promise<readonly Oldest[]> =>
  (await db.executeQuery<Oldest>(CompiledQuery.raw(OLDEST, [session, count]))).rows

const sum = (events: readonly Oldest[]): number =>
  events.reduce((total, { bytes }) => total + bytes, 0)
