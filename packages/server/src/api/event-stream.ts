import { once } from "node:events"
import type { ServerResponse } from "node:http"
import type { StreamPage } from "../events/pages.ts"
import type { Streams } from "./streams.ts"

export interface EventStream {
  readonly streams: Streams
  readonly events: AsyncIterable<StreamPage>
  /** Ends it. */
  readonly signal: AbortSignal
  readonly heartbeatMs: number
}

/**
 * Answers with server-sent events, as fast as they are read: what is not read waits where it came from. Whoever
 * reads goes on elsewhere after an end, so that one who does not read is cut off then, and holds up nobody's stop.
 */
export const sendEvents = async (
  response: ServerResponse,
  { streams, events, signal, heartbeatMs }: EventStream,
): Promise<void> => {
  streams.add(response)
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    // There is nothing more to come on it.
    connection: "close",
  })
  response.flushHeaders()
  // Tells both sides that the other is there: programs in between end what is silent.
  const heartbeat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(HEARTBEAT)
  }, heartbeatMs)
  try {
    for await (const { pieces } of events) {
      // In one write: of several, Node may wait for a drain that never comes when the socket takes all but the last.
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
