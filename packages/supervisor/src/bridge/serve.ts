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
  /** From `readToken`. */
  readonly token: string
  readonly sandbox: SandboxId
  readonly health: () => Pick<SupervisorHealth, "ready" | "prompts">
  /** The boot trace, as it is now. */
  readonly boot: () => unknown
  /** Both are awaited by those who connect, so that the socket answers before they are open. */
  readonly journal: Promise<Journal>
  readonly prompts: Promise<Prompts>
  /** Without it nothing is asked, and no bundle is taken. */
  readonly asks?: Asks
  /** Beside the bridge's own routes. */
  readonly features?: Dispatch
  /** What went wrong with one connection or one request: the others go on. */
  readonly onFault: (error: BerthError) => void
  /** From a connection to its hello; HELLO_DEADLINE_MS unless said. */
  readonly helloDeadlineMs?: number
  /** How often it looks whether its socket is there; SOCKET_LOOK_MS unless said. */
  readonly socketLookMs?: number
  /** How long a server may be silent; SILENCE_LIMIT_MS unless said. */
  readonly silenceLimitMs?: number
}

export interface BridgeServer {
  /** Where it listens: a path, or an address with its port, in the order of `listen`. */
  readonly addresses: readonly (string | AddressInfo)[]
  /** Ends every connection. Twice is as good as once. */
  close(): Promise<void>
}

/** A request whose headers take longer to arrive is cut off. */
const HEADERS_DEADLINE_MS = 10_000

/** As many as commands may run at once, and some more for files, terminals and ports. */
const MAX_CONNECTIONS = 2_048

/**
 * What a sandbox serves to those who have the token: `GET /health`, `GET /boot`, `PUT /bundles/{ask}`, the
 * WebSocket `/bridge`, the upgrade `/host-ports/{ask}` to plain bytes, and the features.
 * Nothing is loaded here that the first answer does not need.
 */
export const serveBridge = async (options: BridgeServerOptions): Promise<BridgeServer> => {
  // Whoever connects is told; as long as nobody does, there is nobody to tell.
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
  // Only a bundle has a body that is read, and a large one takes its time; its pauses are bounded where it is read.
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

/** A refusal is an answer like any other: it says why. */
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

/** 204 when all of it is written; the asker hears of everything else. */
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
