import type { Sequence } from "@berth/protocol/event"
import type { SessionId } from "@berth/protocol/ids"
import { CompiledQuery, type Kysely } from "kysely"
import type { Database } from "../store/database.ts"

/** An event of a session as it is kept. */
export interface StoredEvent {
  readonly sequence: Sequence
  readonly type: string
  /** The whole event (protocol `Event`) as JSON, in one line. */
  readonly json: string
}

/** Some events of a session, as server-sent events. */
export interface StreamPage {
  /** The number of the last of them. */
  readonly last: Sequence
  /** Their bytes, one piece after another. */
  readonly pieces: readonly Buffer[]
}

/** The log of a session, a page at a time: what is after a number, as much as makes a page. */
export interface Pages {
  /** None when there are none. */
  events(session: SessionId, after: number): Promise<StoredEvent[]>
  /** undefined when there are none. */
  stream(session: SessionId, after: number): Promise<StreamPage | undefined>
}

/** The bounds of a page, in events and in bytes: a slow reader holds one page, and nothing else. */
const PAGE_EVENTS = 512
export const PAGE_BYTES = 256 * 1024

/**
 * Read at a time, since how long they are is seen only then: one may have 256 KiB. Fewer, and those who are told
 * much at once ask so often that the server stores a third less; adding the lengths up in the store takes as long.
 */
export const STEP_EVENTS = 64

/** Read first: how long they are says how many are read next. */
const FIRST_EVENTS = 8

const EVENTS = `
  SELECT sequence, type, json FROM events
  WHERE session = ? AND sequence > ? ORDER BY sequence LIMIT ?`

/**
 * The store puts the page together: as rows, it would cost twice the time, and most of that for garbage. What is added
 * up comes in the order of the rows that it is made of; sorting it once more would cost as much as the rest.
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

/** Reads so many events at most, again and again, until they make a page or there are no more. */
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
