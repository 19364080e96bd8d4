import type { SessionId } from "@berth/protocol/ids"
import { CompiledQuery, type Kysely, type Transaction } from "kysely"
import type { Database } from "../store/database.ts"
import { Bells } from "./bells.ts"
import { type Counted, cutDown, tellAtEnds } from "./cuts.ts"
import { isWithin, type Measured, measure, type NewEvent } from "./measure.ts"
import { openPages, type StoredEvent, type StreamPage } from "./pages.ts"
import type { RestFiles } from "./rest-files.ts"
import { removeBeyondSize, removeOldEvents } from "./retention.ts"
import type { Turns } from "./turns.ts"

/** The events of sessions. The log is only ever appended to, and each session has numbers of its own. */
export interface EventLog {
  /**
   * Appends in the caller's transaction. Events of sessions that do not exist are left out, and so is output of
   * sandboxes beyond their budgets, with an event that says so.
   */
  append(trx: Transaction<Database>, events: readonly NewEvent[]): Promise<void>
  /** Wakes the followers of these sessions; called after the commit. */
  ring(sessions: Iterable<SessionId>): void
  /** The events after that number, as many as make a page; empty if there are none. */
  read(session: SessionId, after: number): Promise<StoredEvent[]>
  /** Removes older events. One event that says so takes their place. */
  removeBefore(atMs: number): Promise<void>
  /** Removes the oldest events where there are too many. One event that says so takes their place. */
  removeBeyondSize(): Promise<void>
  /** Gives the events after that number, then new ones, in order, until the signal fires. */
  follow(session: SessionId, after: number, signal: AbortSignal): AsyncIterable<StreamPage>
}

/*
 * Thousands of events a second pass here. Each statement is written out, since building one takes longer than running
 * it, and handles any number of events and sessions.
 */

const COUNT = `
  UPDATE sessions SET
    last_event = last_event + (added.value ->> 'count'),
    event_bytes = event_bytes + (added.value ->> 'bytes')
  FROM json_each(?) AS added WHERE sessions.id = added.value ->> 'session'
  RETURNING id, last_event, event_bytes`

const INSERT = `
  INSERT INTO events (session, sequence, at_ms, type, json)
  SELECT value ->> 'session', value ->> 'sequence', value ->> 'atMs', value ->> 'type', value ->> 'json'
  FROM json_each(?)`

export const openLog = (
  db: Kysely<Database>,
  now: () => number,
  turns: Turns,
  /** The files for output that the log leaves out; undefined: it is not kept. */
  rest: RestFiles | undefined,
): EventLog => {
  const bells = new Bells<SessionId>()
  const pages = openPages(db)

  return {
    append: async (trx, events) => {
      if (events.length === 0) return
      const measured = (await tellAtEnds(trx, events, rest)).map(measure)
      const { rows } = await trx.executeQuery<Counted>(
        CompiledQuery.raw(COUNT, [JSON.stringify(added(measured))]),
      )
      const stored = isWithin(measured, rows)
        ? { events: measured, counted: rows }
        : await cutDown(trx, measured, rows, rest)
      const counts = new Map(added(stored.events).map(({ session, count }) => [session, count]))
      const next = new Map(
        stored.counted.map(({ id, last_event }) => [id, last_event - (counts.get(id) ?? 0) + 1]),
      )
      // An event's age counts from here: its own time is the sandbox's word, and an event that is reported late is not
      // old.
      const atMs = now()
      const numbered = stored.events.flatMap(({ session, at, body, text }) => {
        const sequence = next.get(session)
        if (sequence === undefined) return []
        next.set(session, sequence + 1)
        const json = `{"sequence":${sequence},"at":"${at}","body":${text}}`
        return [{ session, sequence, atMs, type: body.type, json }]
      })
      await trx.executeQuery(CompiledQuery.raw(INSERT, [JSON.stringify(numbered)]))
    },
    ring: (sessions) => {
      for (const session of sessions) bells.ring(session)
    },
    read: pages.events,
    removeBefore: (atMs) => removeOldEvents(db, atMs),
    removeBeyondSize: () => removeBeyondSize(db, now()),
    follow: async function* (session, after, signal) {
      for (let seen = after; !signal.aborted; ) {
        // The wait begins before the read, so that events in between are not missed.
        const rung = bells.next(session, signal)
        const page = await turns.take("read", () => pages.stream(session, seen))
        seen = page?.last ?? seen
        if (page !== undefined) yield page
        else await rung
      }
    },
  }
}

/** The number of events that each session gets, and their bytes. */
const added = (events: readonly Measured[]) => {
  const bySession = new Map<SessionId, { session: SessionId; count: number; bytes: number }>()
  for (const { session, bytes } of events) {
    const sum = bySession.get(session)
    if (sum === undefined) bySession.set(session, { session, count: 1, bytes })
    else {
      sum.count++
      sum.bytes += bytes
    }
  }
  return [...bySession.values()]
}
