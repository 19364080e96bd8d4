import type { EventBody, Sequence } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import { type Kysely, sql, type Transaction } from "kysely"
import type { Database } from "../store/database.ts"
import { Bells } from "./bells.ts"

/** An event of a session as it is kept. */
export interface StoredEvent {
  readonly sequence: Sequence
  readonly type: string
  /** The whole event (protocol `Event`) as JSON, in one line. */
  readonly json: string
}

/** An event that has no number yet. */
export interface NewEvent {
  readonly session: SessionId
  readonly at: string
  readonly body: EventBody
}

/** What happened in sessions: it is only ever added to, and each session has numbers of its own. */
export interface EventLog {
  /** Part of the caller's transaction. Those of sessions that are not there are left out. */
  append(trx: Transaction<Database>, events: readonly NewEvent[]): Promise<void>
  /** After the commit: whoever follows one of these sessions looks again. */
  ring(sessions: Iterable<SessionId>): void
  /** The events after that number, as many as make a page. */
  read(session: SessionId, after: number): Promise<StoredEvent[]>
  /** What is there after that number, then what comes, in order, until the signal fires. */
  follow(session: SessionId, after: number, signal: AbortSignal): AsyncIterable<StoredEvent[]>
}

/** Whoever reads slowly holds a page of them, and nothing else. */
const PAGE_EVENTS = 500

export const openLog = (db: Kysely<Database>): EventLog => {
  const bells = new Bells<SessionId>()

  const read = (session: SessionId, after: number): Promise<StoredEvent[]> =>
    db
      .selectFrom("events")
      .select(["sequence", "type", "json"])
      .where("session", "=", session)
      .where("sequence", ">", after)
      .orderBy("sequence")
      .limit(PAGE_EVENTS)
      .execute()

  return {
    append: async (trx, events) => {
      for (const [session, own] of Map.groupBy(events, (event) => event.session)) {
        const row = await trx
          .updateTable("sessions")
          .set(({ eb }) => ({ last_event: eb("last_event", "+", own.length) }))
          .where("id", "=", session)
          .returning("last_event")
          .executeTakeFirst()
        if (row !== undefined) await insert(trx, session, row.last_event - own.length + 1, own)
      }
    },
    ring: (sessions) => {
      for (const session of sessions) bells.ring(session)
    },
    read,
    follow: async function* (session, after, signal) {
      for (let seen = after; !signal.aborted; ) {
        // Before the look, so that what comes in between is heard.
        const rung = bells.next(session, signal)
        const events = await read(session, seen)
        seen = events.at(-1)?.sequence ?? seen
        if (events.length > 0) yield events
        else await rung
      }
    },
  }
}

/** One statement for any number of them. */
const insert = async (
  trx: Transaction<Database>,
  session: SessionId,
  first: number,
  events: readonly NewEvent[],
): Promise<void> => {
  const rows = events.map(({ at, body }, index) => {
    const sequence = first + index
    const json = JSON.stringify({ sequence, at, body })
    return { sequence, atMs: Date.parse(at), type: body.type, json }
  })
  await sql`
    INSERT INTO events (session, sequence, at_ms, type, json)
    SELECT ${session}, value ->> 'sequence', value ->> 'atMs', value ->> 'type', value ->> 'json'
    FROM json_each(${JSON.stringify(rows)})`.execute(trx)
}
