import type { Event } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import type { Transaction } from "kysely"
import type { Database } from "./database.ts"

/**
 * More events than a session has between two backups: a client that has seen the numbers between does not see them
 * again.
 */
export const LEAP = 1_000_000

const INTERRUPTED = "the database was put back from a backup, which does not say what became of it"
const GAP =
  "the database was put back from a backup: what happened since that was made is not known"

/**
 * Corrects a database that was restored from a copy: what it says of running things is outdated. Leases that end with
 * their own result, and never by time, are removed; sandboxes are asked what lives in them. Prompts that had not ended
 * then may have run since: they are interrupted, and never run again. Events that are gone are a gap.
 */
export const disbelieve = async (trx: Transaction<Database>, atMs: number): Promise<void> => {
  await trx.deleteFrom("leases").where("kind", "in", ["prompt", "exec"]).execute()
  for (const { id, last_event } of await trx.selectFrom("sessions").selectAll().execute())
    await disbelieveSession(trx, { id, lastEvent: last_event }, atMs)
  // Attachments are kept only for prompts that have not ended.
  await trx.deleteFrom("attachments").execute()
  await trx
    .updateTable("prompts")
    .set({ state: "interrupted", reason: INTERRUPTED, ended_at_ms: atMs })
    .where("state", "in", ["queued", "running"])
    .execute()
}

const POWER_LOST =
  "the machine or its disk stopped without notice: the last of what happened before that is not known"

/**
 * Skips numbers after a power loss, of the machine or of its disk alone: events that clients had seen may not have reached the disk, and their numbers must
 * not be used for others. A closed session gets no more events, and its end is synced.
 */
export const leap = async (trx: Transaction<Database>, atMs: number): Promise<void> => {
  const sessions = await trx
    .selectFrom("sessions")
    .select(["id", "last_event"])
    .where("state", "=", "open")
    .execute()
  for (const { id, last_event } of sessions)
    await appendAhead(
      trx,
      { id, lastEvent: last_event },
      [{ type: "gap", reason: POWER_LOST }],
      atMs,
    )
}

const disbelieveSession = async (
  trx: Transaction<Database>,
  { id: session, lastEvent }: { readonly id: SessionId; readonly lastEvent: number },
  atMs: number,
): Promise<void> => {
  const pending = await trx
    .selectFrom("prompts")
    .select("id")
    .where("session", "=", session)
    .where("state", "in", ["queued", "running"])
    .orderBy("number")
    .execute()
  const bodies: Event["body"][] = [
    { type: "gap", reason: GAP },
    ...pending.map(({ id: prompt }) => ({
      type: "prompt.state" as const,
      prompt,
      state: "interrupted" as const,
      reason: INTERRUPTED,
    })),
  ]
  await appendAhead(trx, { id: session, lastEvent }, bodies, atMs)
}

/** Appends events to a session's log, LEAP numbers ahead. */
const appendAhead = async (
  trx: Transaction<Database>,
  { id: session, lastEvent }: { readonly id: SessionId; readonly lastEvent: number },
  bodies: readonly Event["body"][],
  atMs: number,
): Promise<void> => {
  const at = new Date(atMs).toISOString()
  const events = bodies.map((body, place) => ({ sequence: lastEvent + LEAP + place, at, body }))
  for (const event of events)
    await trx
      .insertInto("events")
      .values({
        session,
        sequence: event.sequence,
        at_ms: atMs,
        type: event.body.type,
        json: JSON.stringify(event),
      })
      .execute()
  await trx
    .updateTable("sessions")
    .set({ last_event: lastEvent + LEAP + bodies.length - 1 })
    .where("id", "=", session)
    .execute()
}
