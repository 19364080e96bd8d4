import type { IncomingMessage } from "node:http"
import { PassThrough } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import type { FastifyInstance } from "fastify"

declare module "fastify" {
  interface FastifyContextConfig {
    /** Bodies of this route are passed on as they come, of any size and for any time. */
    streams?: boolean
  }
}

/**
 * Reads the rest of a body that was answered before all of it had come, so that the connection can be used again. Node
 * does this only for a body that nobody has begun to read.
 */
const discard = (request: IncomingMessage, withinMs: number): void => {
  if (request.complete && request.readableEnded) return
  request.unpipe()
  request.resume()
  const late = setTimeout(() => request.destroy(), withinMs)
  for (const end of ["end", "close"]) request.once(end, () => clearTimeout(late))
}

/** Gives up on a body that does not arrive in time. Node's own deadline would apply to streams as well. */
export const limitReceiving = (api: FastifyInstance, receiveMs: number): void => {
  api.addHook("preParsing", async (request, reply, payload) => {
    const { "content-length": length, "transfer-encoding": encoding } = request.headers
    const hasBody = encoding !== undefined || (length !== undefined && length !== "0")
    if (!hasBody || request.routeOptions.config.streams === true) return payload
    const received = new PassThrough()
    // A body that is refused for its length has no reader to get the error.
    received.on("error", () => {})
    const late = setTimeout(() => {
      // The rest of the body is not read.
      reply.header("connection", "close")
      received.destroy(new BerthError("deadline.exceeded", "the request took too long to arrive"))
    }, receiveMs)
    received.once("close", () => clearTimeout(late))
    payload.once("error", (error) => received.destroy(error))
    reply.raw.once("finish", () => discard(request.raw, receiveMs))
    return payload.pipe(received)
  })
}
