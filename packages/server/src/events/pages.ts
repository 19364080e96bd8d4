import type { Sequence } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import { CompiledQuery, type Kysely } from "kysely"
import type { Database } from "../store/database.ts"

/** An event of a session as the store keeps it. */
export interface StoredEvent {
  readonly sequence: Sequence
  readonly type: string
  /** The whole event (protocol `Event`) as JSON, in one line. */
  readonly json: string
}

/** Some events of a session, as server-sent events. */
export interface StreamPage {
  /** The number of the last event of the page. */
  readonly last: Sequence
  /** The bytes of the page, piece by piece. */
  readonly pieces: readonly Buffer[]
}

/** The log of a session, a page at a time: the events after a number, as many as make a page. */
export interface Pages {
  /** Empty if there are no more events. */
  events(session: SessionId, after: number): Promise<StoredEvent[]>
  /** undefined if there are no more events. */
  stream(session: SessionId, after: number): Promise<StreamPage | undefined>
}

/** The bounds of a page, in events and in bytes: a slow reader holds one page, and nothing else. */
const PAGE_EVENTS = 512
export const PAGE_BYTES = 256 * 1024

/**
 * Events that are read at a time, since their length is known only then: one may have 256 KiB. With fewer, readers that
 * get much at once query so often that the server stores a third less; adding the lengths up in the store takes as
 * long.
 */
export const STEP_EVENTS = 64

/** Events that are read first: their length says how many are read next. */
const FIRST_EVENTS = 8

const EVENTS = `
  SELECT sequence, type, json FROM events
  WHERE session = ? AND sequence > ? ORDER BY sequence LIMIT ?`

/**
 * The store puts the page together: reading rows would take twice the time, most of it for garbage. `group_concat`
 * keeps the order of its rows; sorting them once more would cost as much as the rest.
 */
const STREAM = `
  SELECT
    count(*) AS count, max(sequence) AS last, max(octet_length(json)) AS longest,
    CAST(group_concat(
      'id: ' || sequence || char(10) || 'event: ' || type || char(10) || 'data: ' || json || char(10, 10), ''
    ) AS BLOB) AS bytes
  FROM (${EVENTS})`

interface Step {
  readonly count: number
  readonly last: Sequence
  readonly longest: number
  readonly bytes: Buffer
}

export const openPages = (db: Kysely<Database>): Pages => {
  const rowsOf = async <Row>(sql: string, session: SessionId, after: number, limit: number) => {
    const { rows } = await db.executeQuery<Row>(CompiledQuery.raw(sql, [session, after, limit]))
    return rows
  }
  return {
    events: async (session, after) => {
      const page: StoredEvent[] = []
      await inSteps(async (limit) => {
        const seen = page.at(-1)?.sequence ?? after
        const rows = await rowsOf<StoredEvent>(EVENTS, session, seen, limit)
        page.push(...rows)
        const lengths = rows.map(({ json }) => Buffer.byteLength(json))
        const bytes = lengths.reduce((sum, length) => sum + length, 0)
        return { count: rows.length, bytes, longest: Math.max(0, ...lengths) }
      })
      return page
    },
    stream: async (session, after) => {
      const steps: Step[] = []
      await inSteps(async (limit) => {
        const seen = steps.at(-1)?.last ?? after
        const [step] = await rowsOf<Step>(STREAM, session, seen, limit)
        if (step === undefined || step.count === 0) return { count: 0, bytes: 0, longest: 0 }
        steps.push(step)
        return { count: step.count, bytes: step.bytes.length, longest: step.longest }
      })
      const last = steps.at(-1)
      return last && { last: last.last, pieces: steps.map(({ bytes }) => bytes) }
    },
  }
}

/** Reads in steps, until the events make a page or there are no more. */
const inSteps = async (
  read: (limit: number) => Promise<{ count: number; bytes: number; longest: number }>,
): Promise<void> => {
  let [events, bytes, longest] = [0, 0, PAGE_BYTES / FIRST_EVENTS]
  while (bytes < PAGE_BYTES && events < PAGE_EVENTS) {
    const limit = Math.min(STEP_EVENTS, Math.ceil((PAGE_BYTES - bytes) / longest))
    const step = await read(limit)
    if (step.count < limit) return
    events += step.count
    bytes += step.bytes
    longest = Math.max(1, step.longest)
  }
}
