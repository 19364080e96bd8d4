import type { BerthError } from "@berth/protocol/errors"
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify"
import type { Logger } from "../logging/logger.ts"
import { type Outcome, writeOperation } from "../logging/operation.ts"

declare module "fastify" {
  interface FastifyRequest {
    /** The error of this request. */
    failure: BerthError | undefined
  }
}

/** Writes one log line for every request when it ends, also when its client went away. */
export const logRequests = (api: FastifyInstance, log: Logger): void => {
  api.decorateRequest("failure", undefined)
  api.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id)
    reply.raw.once("close", () => writeLine(log, request, reply))
  })
}

const writeLine = (log: Logger, request: FastifyRequest, reply: FastifyReply): void => {
  const answered = reply.raw.writableFinished
  const { failure } = request
  const outcome: Outcome = !answered ? "cancelled" : failure === undefined ? "ok" : "failed"
  const ours = answered && failure !== undefined && failure.status >= 500
  writeOperation(log, levelOf(request, outcome, ours), {
    op: "request.answer",
    outcome,
    durationMs: reply.elapsedTime,
    requestId: request.id,
    method: request.method,
    // The pattern of the route is logged, not the URL: a path or a query may hold anything.
    route: request.routeOptions.url ?? "(unknown)",
    status: answered ? reply.statusCode : undefined,
    code: failure?.code,
    err: ours ? failure : undefined,
  })
}

/** Liveness probes come every second, so successful ones are logged at debug level. */
const levelOf = (request: FastifyRequest, outcome: Outcome, ours: boolean) => {
  if (ours) return "error"
  return outcome === "ok" && request.routeOptions.config.open === true ? "debug" : "info"
}
