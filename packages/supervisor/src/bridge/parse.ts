import type { ServerMessage } from "@berth/protocol/bridge"
import { MAX_PROMPT_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"

/**
 * The server's messages, checked by hand: the schema library would take as long to load as node itself.
 * A test holds this to the schema.
 */
export const parseServerMessage = (text: string): ServerMessage => {
  const value = parseJson(text)
  const type = isRecord(value) ? value.type : undefined
  const shape = typeof type === "string" && Object.hasOwn(SHAPES, type) ? SHAPES[type] : undefined
  if (!isRecord(value) || shape === undefined) throw violation(`a message of type ${String(type)}`)
  const keys = Object.keys(value)
  if (keys.length !== Object.keys(shape).length + 1) throw violation(`the keys of ${type}`)
  for (const [key, isValid] of Object.entries(shape)) {
    if (!Object.hasOwn(value, key) || !isValid(value[key])) throw violation(`${key} of ${type}`)
  }
  return value as ServerMessage
}

type Check = (value: unknown) => boolean

const LETTERS = "[0-9a-hjkmnp-tv-z]{20}"
const matches =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === "string" && pattern.test(value)
const isSandboxId = matches(new RegExp(`^sb-${LETTERS}$`))
const isPromptId = matches(new RegExp(`^pr-${LETTERS}$`))
const isSessionId = matches(new RegExp(`^ses-${LETTERS}$`))
const isInteger: Check = (value) => Number.isSafeInteger(value)
const isAtLeast =
  (least: number): Check =>
  (value) =>
    isInteger(value) && (value as number) >= least
const isText: Check = (value) =>
  typeof value === "string" && value.length >= 1 && value.length <= MAX_PROMPT_CHARS

const SHAPES: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  hello: { generation: isInteger, sandbox: isSandboxId, lastSeen: isAtLeast(0) },
  acknowledge: { upTo: isAtLeast(1) },
  "prompt.start": { prompt: isPromptId, session: isSessionId, text: isText },
  "prompt.stop": { prompt: isPromptId },
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw violation("a message that is not JSON", cause)
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const violation = (what: string, cause?: unknown): BerthError =>
  new BerthError("bridge.protocol_violated", `the server sent what is not understood: ${what}`, {
    cause,
  })
