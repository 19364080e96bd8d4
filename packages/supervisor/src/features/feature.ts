import type { IncomingMessage, ServerResponse } from "node:http"
import type { WebSocket } from "ws"

/** The parts of a call that come from its URL, and its signal. */
export interface Called {
  /** The parts of the path that the route names with a colon, decoded. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Fires when the caller has gone, and when the sandbox goes down. */
  readonly signal: AbortSignal
}

export interface HttpCall extends Called {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export interface HttpRoute {
  readonly method: "GET" | "POST" | "PUT" | "DELETE"
  /** Path from the root, as in `/commands/:id/output`. */
  readonly path: string
  /** Answers a call. An error that is thrown before the answer has begun is sent as the answer. */
  handle(call: HttpCall): Promise<void>
}

export interface SocketRoute {
  readonly path: string
  /**
   * Decides on a call before the connection is made. An error is sent as the answer. The returned function gets the
   * connection.
   */
  open(call: Called): Promise<(websocket: WebSocket) => void>
}

/** A feature for clients of a sandbox besides prompts: commands, files, terminals, … */
export interface Feature {
  readonly http: readonly HttpRoute[]
  readonly sockets: readonly SocketRoute[]
  /** Ends everything that the feature runs. A second call is harmless. */
  close(): Promise<void>
}

/** Functions that load a feature at the first call, by the first part of the path. */
export type Features = Readonly<Record<string, () => Promise<Feature>>>
