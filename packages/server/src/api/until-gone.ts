import type { ServerResponse } from "node:http"
import { BerthError } from "@berth/protocol/errors"

/** Fires when the client is gone, or was answered. */
export const untilGone = (response: ServerResponse): AbortSignal => {
  const gone = new AbortController()
  response.once("close", () => gone.abort(new BerthError("cancelled", "the client is gone")))
  return gone.signal
}
