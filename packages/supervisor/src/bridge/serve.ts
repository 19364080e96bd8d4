import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http"
import type { AddressInfo } from "node:net"
import type { Duplex } from "node:stream"
import type { SupervisorHealth } from "@berth/protocol/bridge"
import { PROTOCOL_GENERATION } from "@berth/protocol/bridge-limits"
import { BerthError, toWireError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Dispatch } from "../features/dispatch.ts"
import type { Journal } from "../journal/journal.ts"
import type { Asks } from "./asks.ts"
import { type KeptSocket, keepSocket } from "./keep-socket.ts"
import { type ListenAddress, listen } from "./listen.ts"
import type { Prompts } from "./prompts.ts"
import { tokenGuard } from "./token.ts"
import { boundUnproven } from "./unproven.ts"
import { Upgrades } from "./upgrades.ts"

export interface BridgeServerOptions {
  readonly listen: readonly ListenAddress[]
  /** The result of `readToken`. */
  readonly token: string
  readonly sandbox: SandboxId
  readonly health: () => Pick<SupervisorHealth, "ready" | "prompts">
  /** Returns the current boot trace. */
  readonly boot: () => unknown
  /** The journal and the prompts are awaited by connections, so that the socket answers before they are open. */
  readonly journal: Promise<Journal>
  readonly prompts: Promise<Prompts>
  /** Undefined: nothing is asked, and no bundle is accepted. */
  readonly asks?: Asks
  /** The routes besides the bridge's own. */
  readonly features?: Dispatch
  /** Called with the error of a connection or request. The others go on. */
  readonly onFault: (error: BerthError) => void
  /** Time limit from a connection to its hello. Default: HELLO_DEADLINE_MS. */
  readonly helloDeadlineMs?: number
  /** Interval at which the socket is checked. Default: SOCKET_LOOK_MS. */
  readonly socketLookMs?: number
  /** Limit of a server's silence. Default: SILENCE_LIMIT_MS. */
  readonly silenceLimitMs?: number
}

export interface BridgeServer {
  /** The addresses: a path, or an address with its port, in the order of `listen`. */
  readonly addresses: readonly (string | AddressInfo)[]
  /** Ends every connection. A second call waits for the same end. */
  close(): Promise<void>
}

/** Time limit for the headers of a request. */
const HEADERS_DEADLINE_MS = 10_000

/** Limit of connections: as many as commands may run at once, and some more for files, terminals and ports. */
const MAX_CONNECTIONS = 2_048

/**
 * Serves clients that have the token: `GET /health`, `GET /boot`, `PUT /bundles/{ask}`, the WebSocket `/bridge`, the
 * upgrade `/host-ports/{ask}` to plain bytes, and the features. Loads only the modules that the first answer needs.
 */
export const serveBridge = async (options: BridgeServerOptions): Promise<BridgeServer> => {
  // A failure reaches those who connect. Without a connection there is nobody to report it to.
  options.journal.catch(() => {})
  options.prompts.catch(() => {})
  const upgrades = new Upgrades(options)
  const servers = options.listen.map((address) => ({
    address,
    server: makeServer(options, upgrades),
  }))
  const kept: KeptSocket[] = []
  let closed: Promise<void> | undefined
  const close = () => {
    for (const socket of kept) socket.release()
    closed ??= closeAll(
      servers.map(({ server }) => server),
      upgrades,
    )
    return closed
  }
  try {
    await Promise.all(servers.map(({ server, address }) => listen(server, address)))
  } catch (thrown) {
    await close()
    throw thrown
  }
  for (const { server, address } of servers)
    if ("path" in address) kept.push(keepSocket(server, address.path, options))
  return { addresses: servers.map(({ server }) => server.address() ?? ""), close }
}

const makeServer = (options: BridgeServerOptions, upgrades: Upgrades): Server => {
  const isAuthorized = tokenGuard(options.token)
  const server = createServer((request, response) => {
    if (!isAuthorized(request.headers.authorization)) return reply(response, 401)
    hasProven(request.socket)
    respond(options, request, response)
  })
  const hasProven = boundUnproven(server)
  // No time limit: only the body of a bundle is read, and a large one takes its time. Its pauses are bounded by its
  // reader.
  server.requestTimeout = 0
  server.headersTimeout = HEADERS_DEADLINE_MS
  server.maxConnections = MAX_CONNECTIONS
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => socket.destroy())
    if (!isAuthorized(request.headers.authorization)) return refuse(socket, "401 Unauthorized")
    hasProven(request.socket)
    const { url = "" } = request
    if (url.startsWith(HOST_PORTS)) return acceptTunnel(options, url, socket, head)
    const accepted =
      url === "/bridge"
        ? upgrades.accept(request, socket, head)
        : options.features?.has(url)
          ? upgradeTo(options.features, upgrades, request, socket, head)
          : undefined
    if (accepted === undefined) return refuse(socket, "404 Not Found")
    accepted.catch(() => socket.destroy())
  })
  return server
}

const closeAll = async (servers: readonly Server[], upgrades: Upgrades): Promise<void> => {
  const ended = servers.map(
    (server) => new Promise<void>((resolve) => server.close(() => resolve())),
  )
  await upgrades.close()
  for (const server of servers) server.closeAllConnections()
  await Promise.all(ended)
}

/** Opens a WebSocket of a feature. A refusal is an ordinary answer with the reason. */
const upgradeTo = async (
  features: Dispatch,
  upgrades: Upgrades,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> => {
  let take: Awaited<ReturnType<Dispatch["open"]>>
  try {
    take = await features.open(request.url ?? "")
  } catch (thrown) {
    const status = thrown instanceof BerthError ? thrown.status : 500
    return refuse(socket, `${status} ${STATUS_CODES[status] ?? "Error"}`, toWireError(thrown))
  }
  take(await upgrades.upgrade(request, socket, head))
}

const BUNDLES = "/bundles/"
const HOST_PORTS = "/host-ports/"

const acceptTunnel = (
  { asks }: BridgeServerOptions,
  url: string,
  socket: Duplex,
  head: Buffer,
): void => {
  const take = asks?.takeTunnel(url.slice(HOST_PORTS.length))
  if (take === undefined) {
    refuse(socket, "404 Not Found")
    return
  }
  socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: bytes\r\n\r\n")
  if (head.length > 0) socket.unshift(head)
  take(socket)
}

const respond = (
  options: BridgeServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): void => {
  const { method, url } = request
  if (method === "PUT" && url?.startsWith(BUNDLES)) {
    void receive(options, url.slice(BUNDLES.length), request, response)
    return
  }
  if (url !== undefined && options.features?.has(url)) {
    void options.features.answer(request, response)
    return
  }
  try {
    const document = method === "GET" ? documentAt(url, options) : undefined
    reply(response, document === undefined ? 404 : 200, document)
  } catch (cause) {
    options.onFault(new BerthError("internal", `${url} failed`, { cause }))
    reply(response, 500)
  }
}

/** Receives a bundle. Answers 204 when it is written; the asker gets every other outcome. */
const receive = async (
  { asks }: BridgeServerOptions,
  ask: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> => {
  try {
    const isTaken = (await asks?.receive(ask, request)) ?? false
    reply(response, isTaken ? 204 : 404)
  } catch (thrown) {
    reply(response, thrown instanceof BerthError ? thrown.status : 500)
  }
}

const documentAt = (
  url: string | undefined,
  { sandbox, health, boot }: BridgeServerOptions,
): unknown => {
  if (url === "/boot") return boot()
  if (url !== "/health") return undefined
  const uptimeMs = process.uptime() * 1000
  return { generation: PROTOCOL_GENERATION, sandbox, uptimeMs, ...health() }
}

const reply = (response: ServerResponse, status: number, body?: unknown): void => {
  if (body === undefined) response.writeHead(status, { connection: "close" }).end()
  else response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))
}

const refuse = (socket: Duplex, status: string, body?: unknown): void => {
  const text = body === undefined ? "" : JSON.stringify(body)
  const type = body === undefined ? "" : "content-type: application/json\r\n"
  const length = `content-length: ${Buffer.byteLength(text)}`
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n${type}${length}\r\n\r\n${text}`)
}
