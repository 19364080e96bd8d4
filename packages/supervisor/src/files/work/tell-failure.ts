import { finished } from "node:stream/promises"
import { BerthError, toWireError } from "@berth/protocol/errors"
import { sendJson } from "../../features/body.ts"
import type { HttpRoute } from "../../features/feature.ts"

/**
 * A failure is told when all of the body has been taken, and on a connection that stays open: whoever is still
 * sending does not listen, and a connection that is closed could take the answer with it.
 */
export const tellFailure = (route: HttpRoute): HttpRoute => ({
  ...route,
  handle: async (call) => {
    const { request, response } = call
    try {
      await route.handle(call)
    } catch (thrown) {
      if (response.headersSent) throw thrown
      if (!request.readableEnded) {
        request.resume()
        await finished(request, { writable: false }).catch(() => {})
      }
      sendJson(response, thrown instanceof BerthError ? thrown.status : 500, toWireError(thrown))
    }
  },
})
