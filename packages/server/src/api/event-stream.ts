import { once } from "node:events"
import type { ServerResponse } from "node:http"
import type { StreamPage } from "../events/pages.ts"
import type { Streams } from "./streams.ts"

export interface EventStream {
  readonly streams: Streams
  readonly events: AsyncIterable<StreamPage>
  /** Ends the stream. */
  readonly signal: AbortSignal
  readonly heartbeatMs: number
}

/**
 * Answers with server-sent events, as fast as they are read: unread events wait in the log. When the stream ends,
 * clients go on elsewhere, so that a client that does not read is cut off then, and holds up no stop.
 */
export const sendEvents = async (
  response: ServerResponse,
  { streams, events, signal, heartbeatMs }: EventStream,
): Promise<void> => {
  streams.add(response)
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    // The connection is not used again after the stream.
    connection: "close",
  })
  response.flushHeaders()
  // The heartbeat tells both sides that the other is there: programs in between end silent connections.
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(HEARTBEAT)
  }, heartbeatMs)
  try {
    for await (const { pieces } of events) {
      // The page goes in one write: with several, Node may wait for a drain that never comes when the socket takes all
      // but the last.
      if (!response.write(Buffer.concat(pieces))) {
        streams.stalled(response)
        await once(response, "drain", { signal })
      }
      signal.throwIfAborted()
    }
    if (response.writableLength === 0) response.end()
  } catch (thrown) {
    if (!signal.aborted) throw thrown
  } finally {
    clearInterval(heartbeat)
    if (!response.writableEnded) response.destroy()
  }
}

const HEARTBEAT = ": still here\n\n"
