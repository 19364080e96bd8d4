import type { IncomingMessage, ServerResponse } from "node:http"
import { PassThrough } from "node:stream"
import { ARCHIVE_TYPE } from "@berth/protocol/sandboxes"
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { berthErrorOf } from "../errors.ts"
import { workspaceOf } from "../parse.ts"
import { answerEarly } from "../proxy/pass-http.ts"
import { watchStall } from "../stall.ts"
import { untilGone } from "../until-gone.ts"
import type { OfWorkspace } from "./workspaces.ts"

/**
 * The files of workspaces as archives, which are never held whole in memory. Each transfer ends when its client goes.
 */
export const archiveRoutes = (
  api: FastifyInstance,
  provide: () => Promise<Pick<Sandboxes, "copies" | "views">>,
): void => {
  api.register(async (scope) => {
    // Bodies are read as they come.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null))
    const url = "/v1/workspaces/:slug/archive"
    scope.get<OfWorkspace>(url, { exposeHeadRoute: false }, async (request, reply) => {
      const workspace = workspaceOf(request.params.slug)
      await withoutDeadline(request, reply, async () => {
        const sandboxes = await provide()
        const signal = untilGone(reply.raw)
        await send(reply.raw, (to) => sandboxes.copies.exportTo(workspace, to, signal))
      })
    })
    scope.put<OfWorkspace>(url, { config: { streams: true } }, async (request, reply) => {
      const workspace = workspaceOf(request.params.slug)
      await withoutDeadline(request, reply, async () => {
        const sandboxes = await provide()
        const signal = untilGone(reply.raw)
        const { sandbox } = await receive(request.raw, (from) =>
          sandboxes.copies.importFrom(workspace, from, signal),
        )
        const view = JSON.stringify(await sandboxes.views.get(sandbox, signal))
        reply.raw.writeHead(201, { "content-type": "application/json; charset=utf-8" }).end(view)
      })
    })
  })
}

/**
 * Runs a handler without a deadline. A failure is answered while the answer has not begun; later it cuts the answer
 * off.
 */
const withoutDeadline = async (
  request: FastifyRequest,
  reply: FastifyReply,
  run: () => Promise<void>,
): Promise<void> => {
  reply.hijack()
  reply.raw.setHeader("x-request-id", request.id)
  try {
    await run()
  } catch (thrown) {
    const error = berthErrorOf(thrown, undefined)
    request.failure = error
    if (reply.raw.headersSent) reply.raw.destroy()
    else answerEarly(request.raw, reply.raw, error)
  }
}

/** Sends the output once there is some: until then a failure gets an error response. */
const send = async (
  outgoing: ServerResponse,
  write: (to: PassThrough) => Promise<void>,
): Promise<void> => {
  const bytes = new PassThrough()
  bytes.once("readable", () => {
    if (bytes.errored) return
    outgoing.writeHead(200, { "content-type": ARCHIVE_TYPE, "cache-control": "no-store" })
    bytes.pipe(outgoing)
  })
  using _stall = watchStall({
    owes: () => outgoing.writableNeedDrain,
    progress: () => outgoing.socket?.bytesWritten ?? 0,
    onOver: () => outgoing.destroy(),
  })
  await write(bytes)
}

/** Reads a body as it comes. The connection is left open for the answer, even if reading fails. */
const receive = async <Result>(
  incoming: IncomingMessage,
  read: (from: PassThrough) => Promise<Result>,
): Promise<Result> => {
  const bytes = new PassThrough()
  bytes.on("error", () => {})
  incoming.once("error", (error) => bytes.destroy(error))
  incoming.pipe(bytes)
  using _stall = watchStall({
    owes: () => !incoming.complete && bytes.readableLength === 0,
    progress: () => incoming.socket.bytesRead,
    onOver: (why) => bytes.destroy(why),
  })
  try {
    return await read(bytes)
  } finally {
    incoming.unpipe(bytes)
    bytes.destroy()
  }
}
