import { BerthError } from "@berth/protocol/errors"
import { Event } from "@berth/protocol/event"
import { type Connection, parseJson, stream } from "./call.ts"
import { readEventStream } from "./event-stream.ts"
import { cancelled, pause } from "./pause.ts"
import { notBerth } from "./reply-error.ts"
import { limitSilence } from "./silence.ts"

export interface EventsOptions {
  /** The number of the last known event; without it, all events are read. */
  readonly after?: number
  readonly signal?: AbortSignal | undefined
  /** Called each time that the server went away, before it is asked again. */
  readonly onBreak?: (why: BerthError) => void
}

/** A server on this machine is back within seconds. */
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 5_000

/** The server sends three heartbeats in this time. */
const LONGEST_SILENCE_MS = 45_000

/**
 * The past events of a session, then new ones, each once. After a break it continues where it was. Ends when the signal
 * fires, and where another attempt would fail as well.
 */
export const readEvents = async function* (
  connection: Connection,
  path: string,
  { after = 0, signal, onBreak }: EventsOptions = {},
): AsyncGenerator<Event> {
  let last = after
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
    let broken: BerthError
    try {
      for await (const event of connect(connection, path, last, signal)) {
        last = followUp(connection, event, last)
        waitMs = FIRST_WAIT_MS
        yield event
      }
      broken = new BerthError("server.stopping", `the server at ${connection.url} went away`)
    } catch (thrown) {
      broken = failureOf(connection, thrown, signal)
      if (broken.retry === "never" || broken.code === "cancelled") throw broken
    }
    onBreak?.(broken)
    await pause(waitMs, signal)
  }
}

/** The events that one connection brings. */
const connect = async function* (
  connection: Connection,
  path: string,
  after: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<Event> {
  const silence = limitSilence(LONGEST_SILENCE_MS, signal)
  const ask = { path, headers: { "last-event-id": String(after) } }
  try {
    const bytes = await stream(connection, ask, { signal: silence.signal })
    for await (const data of readEventStream(bytes, silence.heard)) {
      const event = Event.safeParse(parseJson(data))
      if (!event.success) throw notBerth(connection.url, 200)
      yield event.data
    }
  } finally {
    silence.end()
  }
}

/** Checks that an event is the next one, and returns its number. Only a `gap` event may skip numbers. */
const followUp = ({ url }: Connection, { sequence, body }: Event, last: number): number => {
  if (sequence === last + 1 || (body.type === "gap" && sequence > last)) return sequence
  throw new BerthError("server.reply_invalid", `event ${sequence} came after event ${last}`, {
    details: { url, sequence, last },
  })
}

const failureOf = (
  { url }: Connection,
  thrown: unknown,
  signal: AbortSignal | undefined,
): BerthError => {
  if (signal?.aborted) return cancelled(thrown)
  if (thrown instanceof BerthError && thrown.code !== "cancelled") return thrown
  const message = `the connection to the server at ${url} broke`
  return new BerthError("server.unreachable", message, { details: { url }, cause: thrown })
}
