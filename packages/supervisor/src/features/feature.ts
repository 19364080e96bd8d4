import type { IncomingMessage, ServerResponse } from "node:http"
import type { WebSocket } from "ws"

/** What came with a call's path. */
export interface Called {
  /** The parts of the path that the route names with a colon, decoded. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Fires when whoever called is gone, and when the sandbox goes down. */
  readonly signal: AbortSignal
}

export interface HttpCall extends Called {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

export interface HttpRoute {
  readonly method: "GET" | "POST" | "PUT" | "DELETE"
  /** From the root, as in `/commands/:id/output`. */
  readonly path: string
  /** Answers. What it throws before it has begun to is the answer. */
  handle(call: HttpCall): Promise<void>
}

export interface SocketRoute {
  readonly path: string
  /** Decides before the connection is made: what it throws is the answer. Then it is given the connection. */
  open(call: Called): Promise<(websocket: WebSocket) => void>
}

/** One of the things that clients do in a sandbox, beside prompts: commands, files, terminals, … */
export interface Feature {
  readonly http: readonly HttpRoute[]
  readonly sockets: readonly SocketRoute[]
  /** Ends what it has running. Twice is as good as once. */
  close(): Promise<void>
}

/** Loads a feature when the first call for it comes, by the first part of the path. */
export type Features = Readonly<Record<string, () => Promise<Feature>>>
