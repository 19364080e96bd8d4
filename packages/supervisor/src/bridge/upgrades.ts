import type { IncomingMessage } from "node:http"
import type { Duplex } from "node:stream"
import { CLOSE, MAX_SERVER_MESSAGE_BYTES } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { WebSocket, WebSocketServer } from "ws"
import { Connection, type ConnectionParts } from "./connection.ts"

/** Turns upgrade requests into bridge connections. One of them is live: the last that had a valid hello. */
export class Upgrades {
  readonly #parts: ConnectionParts
  readonly #connections = new Set<Connection>()
  #live: Connection | undefined
  #webSockets: Promise<WebSocketServer> | undefined
  #closed = false

  constructor(parts: Omit<ConnectionParts, "takeOver">) {
    // A failure reaches those who connect. Without a connection there is nobody to report it to.
    parts.journal.catch(() => {})
    parts.prompts.catch(() => {})
    this.#parts = { ...parts, takeOver: (connection) => this.#takeOver(connection) }
  }

  async accept(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const connection = new Connection(await this.upgrade(request, socket, head), this.#parts)
    this.#connections.add(connection)
    void connection.closed.then(() => this.#connections.delete(connection))
  }

  /** Makes a WebSocket of a connection. */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<WebSocket> {
    this.#webSockets ??= loadWebSockets()
    const webSockets = await this.#webSockets
    if (this.#closed) throw new BerthError("cancelled", "the sandbox is going down")
    return await new Promise((resolve) =>
      webSockets.handleUpgrade(request, socket, head, (websocket) => resolve(websocket)),
    )
  }

  /** Closes all connections, and waits for their end. */
  async close(): Promise<void> {
    this.#closed = true
    const connections = [...this.#connections]
    for (const connection of connections)
      connection.close(CLOSE.stopping, "the sandbox is going down")
    await Promise.all(connections.map(({ closed }) => closed))
  }

  #takeOver(connection: Connection): void {
    this.#live?.close(CLOSE.replaced, "another connection has taken over")
    this.#live = connection
    void connection.closed.then(() => {
      if (this.#live === connection) this.#live = undefined
    })
  }
}

/** Loads the WebSocket library with the first connection: it takes half as long as node's own start. */
const loadWebSockets = async (): Promise<WebSocketServer> => {
  const { WebSocketServer } = await import("ws")
  return new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_SERVER_MESSAGE_BYTES,
  })
}
