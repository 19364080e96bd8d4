import { readFile } from "node:fs/promises"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { join } from "node:path"
import { type WebSocket, WebSocketServer } from "ws"
import { refusalOf } from "./allowed.ts"
import { PAGE, PAGE_PROGRAM } from "./page.ts"
import { type Shell, serveTerminal } from "./terminal.ts"

/** Each is a shell; nobody looks at more. */
export const MAX_TERMINALS = 16
/** A large paste comes in several frames. */
const MAX_FRAME_BYTES = 256 * 1024
/** A viewer that went away without a word, as a laptop that sleeps, is noticed within two of these. */
export const PING_MS = 30_000

export interface WebTerminalOptions {
  /** The directory with xterm.js and xterm.css. */
  readonly assets: string
  readonly shell: Shell
  readonly pingMs?: number
}

export interface WebTerminal {
  readonly server: Server
  /** Ends every terminal, and then the server. */
  close(): Promise<void>
}

const HEADERS = {
  // xterm writes its own styles; programs come from here alone, and nobody frames a shell.
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "cache-control": "no-cache",
}

/** One page with a terminal, and a WebSocket to a shell behind it. */
export const webTerminal = ({
  assets,
  shell,
  pingMs = PING_MS,
}: WebTerminalOptions): WebTerminal => {
  const server = createServer((request, response) => void answer(request, response, assets))
  const sockets = new WebSocketServer({
    ...{ noServer: true, maxPayload: MAX_FRAME_BYTES, perMessageDeflate: false },
  })
  const running = new Set<Promise<void>>()
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => {})
    const refusal = refusalOf({ host: request.headers.host, origin: request.headers.origin })
    if (refusal !== undefined) return void socket.end(refused(403, refusal))
    if (request.url !== "/terminal") return void socket.end(refused(404, "there is no such page"))
    // Those that are still ending count: their processes are there.
    if (running.size >= MAX_TERMINALS) return void socket.end(refused(503, "too many terminals"))
    sockets.handleUpgrade(request, socket, head, (viewer) => {
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
      for (const viewer of sockets.clients) viewer.terminate()
      await Promise.all(running)
      server.closeAllConnections()
    },
  }
}

const answer = async (
  request: IncomingMessage,
  response: ServerResponse,
  assets: string,
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
        return void say(200, "text/javascript", await readFile(join(assets, "xterm.js")))
      case "/xterm.css":
        return void say(200, "text/css", await readFile(join(assets, "xterm.css")))
      default:
        return void say(404, "text/plain", "there is no such page")
    }
  } catch (thrown) {
    say(500, "text/plain", `the page's files are missing: ${(thrown as Error).message}`)
  }
}

const refused = (status: number, why: string): string =>
  `HTTP/1.1 ${status} Refused\r\nconnection: close\r\ncontent-length: ${why.length}\r\n\r\n${why}`

/** Ends a connection whose other end does not answer. */
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
