import { CLOSE, PROTOCOL_GENERATION } from "@berth/protocol/bridge-limits"
import { BerthError, type ErrorCode } from "@berth/protocol/errors"
import { words } from "./parse.ts"

/** The typed error for a failed connection. Only codes decide: messages may be the sandbox's. */
export const failureOf = (thrown: Error): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : ""
  const details = { problem: code || words(thrown.message) }
  if (LIMITS.has(code))
    return new BerthError("bridge.limit_exceeded", "the sandbox sent too much at once", { details })
  // A handshake that the library refuses has no code at all.
  if (code === "" || code.startsWith("WS_ERR_") || code.startsWith("HPE_"))
    return new BerthError("bridge.protocol_violated", "the sandbox does not speak the protocol", {
      details,
      cause: thrown,
    })
  return new BerthError("bridge.dropped", "the connection to the sandbox broke", {
    details,
    cause: thrown,
  })
}

const LIMITS = new Set([
  "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH",
  "WS_ERR_UNSUPPORTED_DATA_PAYLOAD_LENGTH",
  "WS_ERR_TOO_MANY_BUFFERED_PARTS",
  "HPE_HEADER_OVERFLOW",
])

/** The error for a sandbox that answered with a status instead of opening a connection. */
export const failureOfStatus = (status: number): BerthError =>
  status === 401
    ? new BerthError("bridge.unauthorized", "the sandbox refused its token")
    : new BerthError("bridge.protocol_violated", "the sandbox refused the connection", {
        details: { status },
      })

/** The error for a connection that the sandbox closed. */
export const failureOfClose = (code: number, reason: string): BerthError => {
  const [error, message] = CLOSED_BY[code] ?? [
    "bridge.dropped",
    "the connection to the sandbox ended",
  ]
  const ours = error === "bridge.generation_mismatch" ? { ours: PROTOCOL_GENERATION } : {}
  return new BerthError(error, message, { details: { code, sandboxSaid: words(reason), ...ours } })
}

const CLOSED_BY: Readonly<Record<number, readonly [ErrorCode, string]>> = {
  [CLOSE.stopping]: ["bridge.dropped", "the sandbox is going down"],
  [CLOSE.replaced]: ["bridge.replaced", "another connection to the sandbox took over"],
  [CLOSE.generationMismatch]: [
    "bridge.generation_mismatch",
    "the sandbox's supervisor is of another generation",
  ],
  [CLOSE.historyLost]: [
    "bridge.history_lost",
    "the sandbox does not hold the events that come next",
  ],
  [CLOSE.protocolViolated]: [
    "bridge.protocol_violated",
    "the sandbox did not understand the server",
  ],
  [CLOSE.journalUnusable]: ["bridge.refused", "the sandbox cannot use its journal"],
}
