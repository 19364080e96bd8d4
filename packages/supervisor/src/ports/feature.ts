import type { Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import {
  MAX_LISTED_PORTS,
  MAX_PORT_CONNECTIONS,
  MAX_PORT_WATCHERS,
  PORT_CLOSE,
} from "@berth/protocol/port-limits"
import type { PortList } from "@berth/protocol/ports"
import type { WebSocket } from "ws"
import { sendJson } from "../features/body.ts"
import type { Called, Feature } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import { connectToPort } from "./connect.ts"
import { join } from "./join.ts"
import { portsOf } from "./list.ts"
import { readListening } from "./listening.ts"
import { findOwners } from "./owners.ts"
import { PortWatch } from "./watch.ts"

/** Time limit from connecting inside to the client's taking the connection. A client that has gone never takes it. */
const TAKEN_WITHIN_MS = 10_000
/** Limit of the bytes that a watcher may leave unread. */
const MAX_UNREAD_BYTES = 1024 * 1024

export const portsFeature = ({ clock, user }: FeatureParts): Feature => {
  const down = new AbortController()
  const owners = (inodes: ReadonlySet<string>) =>
    findOwners(inodes, { clock, user, signal: down.signal })
  const watch = new PortWatch({ clock, read: readListening, owners })
  const connections = new Set<Socket>()
  let connecting = 0

  const connect = async ({ params, signal }: Called): Promise<Socket> => {
    if (connections.size + connecting >= MAX_PORT_CONNECTIONS)
      throw tooMany("connections", MAX_PORT_CONNECTIONS)
    connecting++
    try {
      const socket = await connectToPort(portOf(params.port ?? ""), signal)
      connections.add(socket)
      socket.once("close", () => connections.delete(socket))
      return socket
    } finally {
      connecting--
    }
  }

  return {
    http: [
      {
        method: "GET",
        path: "/ports",
        handle: async ({ response }) => sendJson(response, 200, await list(owners)),
      },
    ],
    sockets: [
      {
        path: "/ports/watch",
        open: async ({ signal }) => {
          if (watch.count >= MAX_PORT_WATCHERS) throw tooMany("watchers", MAX_PORT_WATCHERS)
          return (websocket) => tell(watch, websocket, signal)
        },
      },
      {
        path: "/ports/:port/connect",
        open: async (call) => {
          const socket = await connect(call)
          const takeBack = clock.after(TAKEN_WITHIN_MS, () => socket.destroy())
          return (websocket) => {
            takeBack()
            closeWith(call.signal, websocket)
            join(websocket, socket, clock)
          }
        },
      },
    ],
    close: async () => {
      down.abort(new BerthError("cancelled", "the sandbox is going down"))
      watch.close()
      for (const socket of connections) socket.destroy()
    },
  }
}

const list = async (
  owners: (inodes: ReadonlySet<string>) => ReturnType<typeof findOwners>,
): Promise<PortList> => {
  const sockets = await readListening()
  const found = await owners(new Set(sockets.map(({ inode }) => inode)))
  const ports = portsOf(sockets, found)
  return { ports: ports.slice(0, MAX_LISTED_PORTS), isCut: ports.length > MAX_LISTED_PORTS }
}

const tell = (watch: PortWatch, websocket: WebSocket, signal: AbortSignal): void => {
  closeWith(signal, websocket)
  const stop = watch.watch((message) => {
    websocket.send(JSON.stringify(message))
    if (websocket.bufferedAmount <= MAX_UNREAD_BYTES) return
    stop()
    websocket.close(PORT_CLOSE.tooSlow, "it does not read")
  })
  websocket.once("close", stop)
}

/**
 * Closes the connection when the signal fires. It also fires when the client has gone; there is nothing to close then.
 */
const closeWith = (signal: AbortSignal, websocket: WebSocket): void => {
  const close = () => websocket.close(PORT_CLOSE.stopping, "the sandbox is going down")
  if (signal.aborted) close()
  else signal.addEventListener("abort", close, { once: true })
}

const portOf = (text: string): number => {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (port >= 1 && port <= 65_535) return port
  throw new BerthError("input.invalid", "the port is not a number from 1 to 65535")
}

const tooMany = (what: string, limit: number): BerthError =>
  new BerthError("ports.too_many", `there are ${limit} ${what} already`, { details: { limit } })
