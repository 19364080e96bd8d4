import { finished } from "node:stream/promises"
import { BerthError, toWireError } from "@berth/protocol/errors"
import { sendJson } from "../../features/body.ts"
import type { HttpRoute } from "../../features/feature.ts"

/**
 * Sends an error only after the whole body has been read, and on a connection that stays open: a client that is still
 * sending does not listen, and closing the connection could lose the answer.
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
