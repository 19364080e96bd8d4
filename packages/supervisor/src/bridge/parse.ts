import type { ServerMessage } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import { problemIn } from "../checks/check.ts"
import { serverMessage } from "../checks/forms/bridge.ts"

/** Parses a message of the server. */
export const parseServerMessage = (text: string): ServerMessage => {
  const value = parseJson(text)
  const problem = problemIn(serverMessage, value, "message")
  if (problem !== undefined) throw violation(problem)
  return value as ServerMessage
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw violation("a message that is not JSON", cause)
  }
}

const violation = (what: string, cause?: unknown): BerthError =>
  new BerthError("bridge.protocol_violated", `the server sent what is not understood: ${what}`, {
    cause,
  })
