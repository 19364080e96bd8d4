import { createServer, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import type { SupervisorHealth } from "@berth/protocol/bridge"
import { PROTOCOL_GENERATION } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Inside } from "./inside.ts"
import { type ListenAddress, listen } from "./listen.ts"
import { refuse, reply } from "./reply.ts"
import { type SocketFileWatch, watchSocketFile } from "./socket-file.ts"
import { tokenGuard } from "./token.ts"
import { boundUnproven } from "./unproven.ts"

export interface BridgeServerOptions {
  readonly listen: readonly ListenAddress[]
  /** The result of `readToken`. */
  readonly token: string
  readonly sandbox: SandboxId
  readonly health: () => Pick<SupervisorHealth, "ready" | "prompts">
  /** Returns the current boot trace. */
  readonly boot: () => unknown
  /** Awaited by the calls that need it, so that the socket answers before it is loaded. */
  readonly inside: Promise<Inside>
  /** Called with the error of a connection or request. The others go on. */
  readonly onFault: (error: BerthError) => void
  /** Interval at which the socket is checked. Default: SOCKET_LOOK_MS. */
  readonly socketLookMs?: number
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
 * Serves clients that have the token: `GET /health` and `GET /boot` at once, and what is inside as soon as that is
 * there: `PUT /bundles/{ask}`, the WebSocket `/bridge`, the upgrade `/host-ports/{ask}` to plain bytes, and the
 * features. Loads only the modules that the first answer needs.
 */
export const serveBridge = async (options: BridgeServerOptions): Promise<BridgeServer> => {
  const { promise: inside, resolve, reject } = Promise.withResolvers<Inside>()
  options.inside.then(resolve, reject)
  // A failure ends the connections that wait. Without a connection there is nobody to report it to.
  inside.catch(() => {})
  const servers = options.listen.map((address) => ({
    address,
    server: makeServer(options, inside),
  }))
  const watches: SocketFileWatch[] = []
  let closed: Promise<void> | undefined
  const close = () => {
    for (const watch of watches) watch.end()
    reject(new BerthError("cancelled", "the sandbox is going down"))
    closed ??= closeAll(
      servers.map(({ server }) => server),
      inside,
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
    if ("path" in address) watches.push(watchSocketFile(server, address.path, options))
  return { addresses: servers.map(({ server }) => server.address() ?? ""), close }
}

const makeServer = (options: BridgeServerOptions, inside: Promise<Inside>): Server => {
  const isAuthorized = tokenGuard(options.token)
  const server = createServer((request, response) => {
    if (!isAuthorized(request.headers.authorization)) return reply(response, 401)
    hasProven(request.socket)
    const { method, url } = request
    if (method === "GET" && (url === "/health" || url === "/boot"))
      return replyWith(url, options, response)
    const answer = async () => {
      const parts = await inside
      if (!response.destroyed) await parts.answer(request, response)
    }
    answer().catch(() => response.destroy())
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
    const upgrade = async () => {
      const parts = await inside
      if (!socket.destroyed) await parts.upgrade(request, socket, head)
    }
    upgrade().catch(() => socket.destroy())
  })
  return server
}

const closeAll = async (servers: readonly Server[], inside: Promise<Inside>): Promise<void> => {
  const ended = servers.map(
    (server) => new Promise<void>((resolve) => server.close(() => resolve())),
  )
  await inside.then(
    (parts) => parts.close(),
    () => {},
  )
  for (const server of servers) server.closeAllConnections()
  await Promise.all(ended)
}

/** Answers with a document about the sandbox. */
const replyWith = (
  url: "/health" | "/boot",
  options: BridgeServerOptions,
  response: ServerResponse,
): void => {
  try {
    reply(response, 200, url === "/boot" ? options.boot() : healthOf(options))
  } catch (cause) {
    options.onFault(new BerthError("internal", `${url} failed`, { cause }))
    reply(response, 500)
  }
}

const healthOf = ({ sandbox, health }: BridgeServerOptions): SupervisorHealth => {
  const uptimeMs = process.uptime() * 1000
  return { generation: PROTOCOL_GENERATION, sandbox, uptimeMs, ...health() }
}
