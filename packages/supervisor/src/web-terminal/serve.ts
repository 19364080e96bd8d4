import { readFile } from "node:fs/promises"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { join } from "node:path"
import { type WebSocket, WebSocketServer } from "ws"
import { refusalOf } from "./allowed.ts"
import { PAGE, PAGE_PROGRAM } from "./page.ts"
import { MAX_UNSENT_BYTES, type Shell, serveTerminal } from "./terminal.ts"

/** Limit of terminals. Each is a shell; nobody looks at more. */
export const MAX_TERMINALS = 16
/** Limit of one frame. A large paste comes in several. */
const MAX_FRAME_BYTES = 256 * 1024
/** Limit of connections, including those of terminals. A browser has six to one page. */
export const MAX_CONNECTIONS = 128
/** Time limit of a request, from its connection to its last byte. It has a few hundred bytes. */
const REQUEST_MS = 10_000
/** Interval of pings. A viewer that left silently, such as a sleeping laptop, is noticed within two of them. */
export const PING_MS = 30_000

export interface WebTerminalOptions {
  /** The directory with xterm.js and xterm.css. */
  readonly assets: string
  readonly shell: Shell
  readonly pingMs?: number
  readonly requestMs?: number
}

export interface WebTerminal {
  readonly server: Server
  /** Ends every terminal, and then the server. */
  close(): Promise<void>
}

const HEADERS = {
  // xterm writes its own styles. Scripts come from here alone, and no page may frame a shell.
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "cache-control": "no-cache",
}

/** Serves one page with a terminal, and a WebSocket to a shell behind it. */
export const webTerminal = ({
  assets,
  shell,
  pingMs = PING_MS,
  requestMs = REQUEST_MS,
}: WebTerminalOptions): WebTerminal => {
  const read = readOnce(assets)
  const limits = {
    headersTimeout: requestMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: requestMs / 2,
  }
  const server = createServer(limits, (request, response) => void answer(request, response, read))
  server.maxConnections = MAX_CONNECTIONS
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    autoPong: false,
  })
  const running = new Set<Promise<void>>()
  // Tracked here, as the server forgets a connection when it is upgraded.
  const connections = new Set<Socket>()
  server.on("connection", (connection) => {
    connections.add(connection)
    connection.once("close", () => connections.delete(connection))
  })
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => {})
    const refuse = (status: number, why: string) => {
      // Destroyed, as nobody reads from it and its other end's leaving would not be noticed.
      socket.end(refused(status, why), () => socket.destroy())
    }
    const refusal = refusalOf({ host: request.headers.host, origin: request.headers.origin })
    if (refusal !== undefined) return refuse(403, refusal)
    if (request.url !== "/terminal") return refuse(404, "there is no such page")
    // Ending terminals count too: their processes still run.
    if (running.size >= MAX_TERMINALS) return refuse(503, "too many terminals")
    sockets.handleUpgrade(request, socket, head, (viewer) => {
      answerPings(viewer)
      const stopPinging = keepAlive(viewer, pingMs)
      const ended = serveTerminal(viewer, shell)
        .catch(() => viewer.terminate())
        .finally(() => {
          stopPinging()
          running.delete(ended)
        })
      running.add(ended)
    })
  })
  return {
    server,
    close: async () => {
      server.close()
      // Destroyed all at once: a request that has arrived in part could open a terminal while the others end.
      for (const connection of connections) connection.destroy()
      await Promise.all(running)
    },
  }
}

const answer = async (
  request: IncomingMessage,
  response: ServerResponse,
  read: (name: string) => Promise<Buffer>,
): Promise<void> => {
  const say = (status: number, type: string, body: string | Buffer) =>
    response.writeHead(status, { ...HEADERS, "content-type": type }).end(body)
  const refusal = refusalOf({ host: request.headers.host, origin: request.headers.origin })
  if (refusal !== undefined) return void say(403, "text/plain", refusal)
  if (request.method !== "GET") return void say(405, "text/plain", "only GET")
  try {
    switch (request.url) {
      case "/":
        return void say(200, "text/html; charset=utf-8", PAGE)
      case "/page.js":
        return void say(200, "text/javascript", PAGE_PROGRAM)
      case "/xterm.js":
        return void say(200, "text/javascript", await read("xterm.js"))
      case "/xterm.css":
        return void say(200, "text/css", await read("xterm.css"))
      default:
        return void say(404, "text/plain", "there is no such page")
    }
  } catch (thrown) {
    say(500, "text/plain", `the page's files are missing: ${(thrown as Error).message}`)
  }
}

/** Reads each file once, however many requests for it wait to be answered. */
const readOnce = (assets: string): ((name: string) => Promise<Buffer>) => {
  const files = new Map<string, Promise<Buffer>>()
  return (name) => {
    const known = files.get(name)
    if (known !== undefined) return known
    const file = readFile(join(assets, name))
    files.set(name, file)
    file.catch(() => files.delete(name))
    return file
  }
}

const refused = (status: number, why: string): string =>
  `HTTP/1.1 ${status} Refused\r\nconnection: close\r\ncontent-length: ${why.length}\r\n\r\n${why}`

/** Answers pings, except of a viewer that reads nothing: the answers would fill the memory. */
const answerPings = (viewer: WebSocket): void => {
  viewer.on("ping", (data) => {
    if (viewer.bufferedAmount < MAX_UNSENT_BYTES) viewer.pong(data, false, () => {})
  })
}

/** Ends a connection whose other end does not answer pings. */
const keepAlive = (viewer: WebSocket, pingMs: number): (() => void) => {
  let isAlive = true
  viewer.on("pong", () => {
    isAlive = true
  })
  const timer = setInterval(() => {
    if (!isAlive) return viewer.terminate()
    isAlive = false
    viewer.ping()
  }, pingMs)
  return () => clearInterval(timer)
}
