import type { Socket } from "node:net"
import { BerthError } from "@berth/protocol/errors"
import { bareAnswer } from "./bare-answer.ts"

/** The error of the table for whatever a hook, a handler or the framework threw. */
export const berthErrorOf = (thrown: unknown, limitBytes: number | undefined): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const { code, statusCode = 500, message } = thrown as FrameworkError
  const cause = thrown
  switch (code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new BerthError("input.too_large", "the body is larger than is accepted", {
        details: { limitBytes },
        cause,
      })
    case "FST_ERR_HANDLER_TIMEOUT":
      return new BerthError("deadline.exceeded", "the request took too long to answer", { cause })
  }
  // The framework's own refusals: a body that is no JSON, an unsupported content type, a bad URL.
  if (code?.startsWith("FST_ERR_") && statusCode >= 400 && statusCode < 500) {
    return new BerthError("input.invalid", message, { cause })
  }
  if (code === "ENOSPC" || code === "EDQUOT")
    return new BerthError("store.disk_full", `no space is left: ${message}`, { cause })
  return new BerthError("internal", "unexpected failure", { cause })
}

interface FrameworkError {
  readonly code?: string
  readonly statusCode?: number
  readonly message: string
}

/** Answers requests that Node's parser rejected, before there was a request to route. */
export const answerBrokenRequest = (thrown: NodeJS.ErrnoException, socket: Socket): void => {
  if (thrown.code === "ECONNRESET" || !socket.writable) {
    socket.destroy()
    return
  }
  const error = brokenRequest(thrown)
  socket.end(bareAnswer(error.status, error))
}

const brokenRequest = (cause: NodeJS.ErrnoException): BerthError => {
  switch (cause.code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new BerthError("deadline.exceeded", "the request took too long to arrive", { cause })
    case "HPE_HEADER_OVERFLOW":
      return new BerthError("input.too_large", "the headers are larger than is accepted", { cause })
    default:
      return new BerthError("input.invalid", "the request is not valid HTTP", { cause })
  }
}
