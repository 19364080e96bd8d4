import { randomUUID } from "node:crypto"
import { BerthError } from "@berth/protocol/errors"
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify"
import type { Logger } from "../logging/logger.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { Sessions } from "../sessions/sessions.ts"
import { requireToken } from "./authorize.ts"
import { answerBrokenRequest, berthErrorOf } from "./errors.ts"
import { DEFAULT_LIMITS, type Limits } from "./limits.ts"
import { requireLocalName } from "./local-name.ts"
import { logRequests } from "./log-requests.ts"
import { proxyRoutes } from "./proxy/routes.ts"
import { passUpgrades } from "./proxy/upgrades.ts"
import { limitReceiving } from "./receive.ts"
import { archiveRoutes } from "./routes/archives.ts"
import { forkRoute } from "./routes/fork.ts"
import { type Facts, healthRoute } from "./routes/health.ts"
import { holdRoutes } from "./routes/holds.ts"
import { reconcileRoute } from "./routes/reconcile.ts"
import { sandboxRoutes } from "./routes/sandboxes.ts"
import { sessionRoutes } from "./routes/sessions.ts"
import { statusRoute } from "./routes/status.ts"
import { workspaceRoute } from "./routes/workspaces.ts"

export interface ApiOptions {
  readonly log: Logger
  readonly token: string
  readonly facts: Facts
  /** Resolves when the backend is open, and rejects where there can be none. */
  readonly sandboxes: () => Promise<Sandboxes>
  readonly sessions: () => Promise<Sessions>
  readonly limits?: Limits
  /** Called for each client that connects. */
  readonly onConnection?: () => void
}

/** The HTTP API, not yet listening. Every route asks for the token unless it is marked open. */
export const createApi = (options: ApiOptions) => {
  const { log, token, facts, sandboxes, sessions, limits = DEFAULT_LIMITS, onConnection } = options
  const api = fastify({
    // `logRequests` writes one log line for each request instead.
    logger: false,
    genReqId: () => randomUUID(),
    bodyLimit: limits.bodyBytes,
    handlerTimeout: limits.handleMs,
    http: {
      headersTimeout: limits.receiveMs,
      connectionsCheckingInterval: Math.min(limits.receiveMs, MAX_CHECK_INTERVAL_MS),
    },
    schemaController: { compilersFactory: { buildValidator: notAsked, buildSerializer: notAsked } },
    // `drainWhileStopping` answers this with an error of the table.
    return503OnClosing: false,
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (thrown, request, reply) => {
      void answerError(thrown, request, reply as FastifyReply)
    },
  })

  if (onConnection !== undefined) api.server.on("connection", onConnection)
  logRequests(api, log)
  drainWhileStopping(api)
  api.addHook("onRequest", requireLocalName)
  api.addHook("onRequest", requireToken(token))
  limitReceiving(api, limits.receiveMs)
  answerErrors(api)

  healthRoute(api, facts)
  statusRoute(api, facts)
  sandboxRoutes(api, sandboxes)
  forkRoute(api, sandboxes)
  holdRoutes(api, sandboxes)
  reconcileRoute(api, sandboxes)
  workspaceRoute(api, sandboxes)
  archiveRoutes(api, sandboxes)
  sessionRoutes(api, { provide: sessions, heartbeatMs: limits.heartbeatMs })
  proxyRoutes(api, sandboxes)
  passUpgrades(api, { log, token, provide: sandboxes })
  return api
}

/** Requests are parsed with the protocol's schemas; loading fastify's own compilers would delay every start. */
const notAsked = () => {
  throw new Error("a route has a schema of fastify's")
}

/** How often Node checks for requests that arrive too slowly. */
const MAX_CHECK_INTERVAL_MS = 1_000

/** While the server stops, running requests are the last of their connections, and later ones are refused. */
const drainWhileStopping = (api: FastifyInstance): void => {
  let stopping = false
  api.addHook("preClose", async () => {
    stopping = true
  })
  api.addHook("onRequest", async () => {
    if (stopping) throw new BerthError("server.stopping", "the server is stopping")
  })
  api.addHook("onSend", async (_request, reply) => {
    if (stopping) reply.header("connection", "close")
  })
}

const answerErrors = (api: FastifyInstance): void => {
  api.setNotFoundHandler((request) => {
    throw new BerthError("route.unknown", `there is no ${request.method} ${pathOf(request.url)}`)
  })
  api.setErrorHandler(answerError)
}

const answerError = (thrown: unknown, request: FastifyRequest, reply: FastifyReply) => {
  const error = berthErrorOf(thrown, request.routeOptions.bodyLimit)
  request.failure = error
  return reply.code(error.status).send(error.toJSON())
}

/** The path of a URL. A query may hold a secret, so it is not repeated. */
const pathOf = (url: string): string => url.split("?", 1)[0] ?? ""
