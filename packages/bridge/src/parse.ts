import { SupervisorMessage } from "@berth/protocol/bridge"
import { MAX_MESSAGE_DEPTH, MAX_MESSAGE_VALUES } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { z } from "zod"

/** Parses a sandbox's message with the schema. Its size is bounded where it is received. */
export const parseFromSandbox = <Schema extends z.ZodType>(
  bytes: Buffer,
  schema: Schema,
): z.infer<Schema> => {
  checkShape(bytes)
  const parsed = schema.safeParse(parseJson(bytes))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue?.path.slice(0, MAX_MESSAGE_DEPTH).join(".")
  throw violated("the sandbox sent a message of the wrong form", { where, problem: issue?.code })
}

export const parseSupervisorMessage = (bytes: Buffer): SupervisorMessage =>
  parseFromSandbox(bytes, SupervisorMessage)

/** The sandbox's own words, for people: short, and without control characters for a terminal. */
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
const COMMA = 0x2c
const OPENING_LIST = 0x5b
const CLOSING_LIST = 0x5d
const OPENING_OBJECT = 0x7b
const CLOSING_OBJECT = 0x7d

/** Checks nesting and number of values before anything is built: each costs far more memory than its byte. */
const checkShape = (bytes: Buffer): void => {
  let depth = 0
  let values = 0
  let inString = false
  for (let place = 0; place < bytes.length; place++) {
    const byte = bytes[place] ?? 0
    if (inString) {
      if (byte === BACKSLASH) place++
      else if (byte === QUOTE) inString = false
    } else if (byte === QUOTE) inString = true
    else if (byte === COMMA) values++
    else if (byte === OPENING_LIST || byte === OPENING_OBJECT) {
      depth++
      values++
    } else if (byte === CLOSING_LIST || byte === CLOSING_OBJECT) depth--
    if (depth > MAX_MESSAGE_DEPTH) throw beyond("depth", MAX_MESSAGE_DEPTH)
    if (values > MAX_MESSAGE_VALUES) throw beyond("values", MAX_MESSAGE_VALUES)
  }
}

const beyond = (limit: "depth" | "values", max: number): BerthError =>
  new BerthError(
    "bridge.limit_exceeded",
    `the sandbox sent a message beyond the limit of ${limit}`,
    {
      details: { limit, max },
    },
  )

const violated = (message: string, details: Record<string, unknown> = {}): BerthError =>
  new BerthError("bridge.protocol_violated", message, { details })
