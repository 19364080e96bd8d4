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

/** What happened in sessions: it is only ever added to, and each session has numbers of its own. */
export interface EventLog {
  /**
   * Part of the caller's transaction. Those of sessions that are not there are left out; so is what sandboxes say
   * beyond their budgets, with an event that says so.
   */
  append(trx: Transaction<Database>, events: readonly NewEvent[]): Promise<void>
  /** After the commit: whoever follows one of these sessions looks again. */
  ring(sessions: Iterable<SessionId>): void
  /** The events after that number, as many as make a page; none when there are none. */
  read(session: SessionId, after: number): Promise<StoredEvent[]>
  /** Removes what is older. In its place stands one event that says so. */
  removeBefore(atMs: number): Promise<void>
  /** Removes the oldest events where there are too many. In their place stands one event that says so. */
  removeBeyondSize(): Promise<void>
  /** What is there after that number, then what comes, in order, until the signal fires. */
  follow(session: SessionId, after: number, signal: AbortSignal): AsyncIterable<StreamPage>
}

/*
 * Thousands of events a second pass here: each statement is written out, since building one takes longer than it
 * does, and is for any number of events and sessions.
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
  /** Where output goes that the log leaves out; undefined: it is not kept. */
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
      // How old it is counts from here: when it happened is a sandbox's word, and what is told late is not old.
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
        // Before the look, so that what comes in between is heard.
        const rung = bells.next(session, signal)
        const page = await turns.take("read", () => pages.stream(session, seen))
        seen = page?.last ?? seen
        if (page !== undefined) yield page
        else await rung
      }
    },
  }
}

/** How many events each session gets, and of how many bytes. */
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
