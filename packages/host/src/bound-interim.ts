import type { ClientRequest } from "node:http"
import { BerthError } from "@berth/protocol/errors"

/** The most interim answers (1xx) before the answer itself. Supervisors send none, and other programs one or two. */
const MAX_INTERIM_ANSWERS = 8

/** Ends a request with an error when a sandbox sends interim answers without end: each of them costs work. */
export const boundInterim = (request: ClientRequest): void => {
  let count = 0
  request.on("information", () => {
    if (++count === MAX_INTERIM_ANSWERS + 1)
      request.destroy(
        new BerthError("bridge.limit_exceeded", "the sandbox sent too many interim answers", {
          details: { limit: "interimAnswers", max: MAX_INTERIM_ANSWERS },
        }),
      )
  })
}
