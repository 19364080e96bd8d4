import { BerthError } from "@berth/protocol/errors"

/** The bound on the headers of an answer. A supervisor's are a few hundred bytes. */
export const MAX_ANSWER_HEADER_BYTES = 8 * 1024

/** The error for a failed connection to a sandbox. Only codes decide: messages may be the sandbox's. */
export const failureOf = (thrown: unknown): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const { code = "" } = thrown as NodeJS.ErrnoException
  const details = { problem: code }
  if (code === "HPE_HEADER_OVERFLOW")
    return new BerthError("bridge.limit_exceeded", "the sandbox sent too much at once", { details })
  if (code.startsWith("HPE_")) return violated("does not speak HTTP", details)
  return new BerthError("bridge.dropped", "the connection to the sandbox broke", {
    details,
    cause: thrown,
  })
}

export const violated = (what: string, details: Record<string, unknown> = {}): BerthError =>
  new BerthError("bridge.protocol_violated", `the sandbox ${what}`, { details })
