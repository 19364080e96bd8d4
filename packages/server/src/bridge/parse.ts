import { SupervisorMessage } from "@berth/protocol/bridge"
import { MAX_MESSAGE_DEPTH } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { z } from "zod"

/** What a sandbox sent, as what it should be. Its size is bounded where it is received. */
export const parseFromSandbox = <Schema extends z.ZodType>(
  bytes: Buffer,
  schema: Schema,
): z.infer<Schema> => {
  checkDepth(bytes)
  const parsed = schema.safeParse(parseJson(bytes))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue?.path.slice(0, MAX_MESSAGE_DEPTH).join(".")
  throw violated("the sandbox sent a message of the wrong form", { where, problem: issue?.code })
}

export const parseSupervisorMessage = (bytes: Buffer): SupervisorMessage =>
  parseFromSandbox(bytes, SupervisorMessage)

/** The sandbox's own words, for people: short, and without what a terminal would obey. */
export const words = (text: string): string => text.slice(0, 500).replace(/\p{C}/gu, "�")

const parseJson = (bytes: Buffer): unknown => {
  try {
    return JSON.parse(bytes.toString("utf8"))
  } catch {
    throw violated("the sandbox sent what is not JSON")
  }
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPENING = new Set([0x5b, 0x7b])
const CLOSING = new Set([0x5d, 0x7d])

/** Before anything is built from it: each level of nesting costs far more memory than its byte. */
const checkDepth = (bytes: Buffer): void => {
  let depth = 0
  let inString = false
  for (let place = 0; place < bytes.length; place++) {
    const byte = bytes[place] ?? 0
    if (inString) {
      if (byte === BACKSLASH) place++
      else if (byte === QUOTE) inString = false
    } else if (byte === QUOTE) inString = true
    else if (OPENING.has(byte)) depth++
    else if (CLOSING.has(byte)) depth--
    if (depth > MAX_MESSAGE_DEPTH) {
      throw new BerthError("bridge.limit_exceeded", "the sandbox sent a message nested too deep", {
        details: { limit: "depth", max: MAX_MESSAGE_DEPTH },
      })
    }
  }
}

const violated = (message: string, details: Record<string, unknown> = {}): BerthError =>
  new BerthError("bridge.protocol_violated", message, { details })
