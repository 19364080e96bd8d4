import { BerthError } from "@berth/protocol/errors"
import { SANDBOX_FEATURES } from "@berth/protocol/sandboxes"
import type { FastifyInstance } from "fastify"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"
import { berthErrorOf } from "../errors.ts"
import { answerEarly, passHttp } from "./pass-http.ts"
import { targetOf } from "./target.ts"

/** The routes that a sandbox serves itself: commands, files, terminals, ports and git. */
export const proxyRoutes = (
  api: FastifyInstance,
  provide: () => Promise<Pick<Sandboxes, "running" | "use">>,
): void => {
  api.register(async (scope) => {
    // Bodies are passed on, not read here.
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser("*", (_request, _payload, done) => done(null))
    for (const feature of SANDBOX_FEATURES) {
      for (const rest of ["", "/*"]) {
        scope.route({
          method: ["GET", "POST", "PUT", "DELETE"],
          url: `/v1/sandboxes/:id/${feature}${rest}`,
          exposeHeadRoute: false,
          config: { streams: true },
          handler: async (request, reply) => {
            // From here on the call has deadlines of its own.
            reply.hijack()
            reply.raw.setHeader("x-request-id", request.id)
            try {
              const target = targetOf(request.raw.url ?? "")
              if (target === undefined)
                throw new BerthError("not_found", "there is no such sandbox")
              await passHttp(await provide(), target, request.raw, reply.raw)
            } catch (thrown) {
              const error = berthErrorOf(thrown, undefined)
              request.failure = error
              if (reply.raw.headersSent) reply.raw.destroy()
              else answerEarly(request.raw, reply.raw, error)
            }
          },
        })
      }
    }
  })
}
