import type { ServerMessage } from "@berth/protocol/bridge"
import {
  MAX_AUTHOR_CHARS,
  MAX_BRANCH_CHARS,
  MAX_CREDENTIAL_CHARS,
  MAX_PROMPT_CHARS,
  MAX_REASON_CHARS,
  MAX_SHALLOW,
  MAX_URL_CHARS,
} from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import {
  MAX_ATTACHMENTS,
  MAX_NAME_CHARS,
  MAX_PROMPT_MS,
  MAX_QUESTION_CHARS,
} from "@berth/protocol/session-limits"

/**
 * Parses a message of the server. The checks are written by hand, as the schema library would take as long to load as
 * node itself. A test compares them with the schema.
 */
export const parseServerMessage = (text: string): ServerMessage => {
  const value = parseJson(text)
  const type = isRecord(value) ? value.type : undefined
  if (!isOneOf("type", MESSAGES)(value)) throw violation(`a message of type ${String(type)}`)
  return value as ServerMessage
}

/** The kernel's limits. */
const MAX_PATH_CHARS = 4095
const MAX_VARIABLE_CHARS = 128 * 1024

type Check = (value: unknown) => boolean

const LETTERS = "[0-9a-hjkmnp-tv-z]{20}"
const matches =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === "string" && pattern.test(value)
const isSandboxId = matches(new RegExp(`^sb-${LETTERS}$`))
const isPromptId = matches(new RegExp(`^pr-${LETTERS}$`))
const isSessionId = matches(new RegExp(`^ses-${LETTERS}$`))
const isAskId = matches(new RegExp(`^ask-${LETTERS}$`))
const isInteger: Check = (value) => Number.isSafeInteger(value)
const isAtLeast =
  (least: number): Check =>
  (value) =>
    isInteger(value) && (value as number) >= least
const isText =
  (least: number, most: number): Check =>
  (value) =>
    typeof value === "string" && value.length >= least && value.length <= most
const isBetween =
  (least: number, most: number): Check =>
  (value) =>
    isAtLeast(least)(value) && (value as number) <= most
const isBoolean: Check = (value) => typeof value === "boolean"

/** Accepts a missing key. JSON has no undefined, so there is no other case. */
const isAbsentOr =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)

const isNullOr =
  (check: Check): Check =>
  (value) =>
    value === null || check(value)

const isListOf =
  (check: Check, most: number): Check =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every(check)

/** Accepts an absolute path in its normal form. */
const isPath: Check = (value) =>
  isText(1, MAX_PATH_CHARS)(value) &&
  /^\/([^/]+(\/[^/]+)*)?$/.test(value as string) &&
  !(value as string).includes("\0") &&
  !(value as string).split("/").some((part) => part === "." || part === "..")

/** Accepts the variables of an environment. */
const isEnvironment: Check = (value) =>
  isRecord(value) &&
  Object.entries(value).every(
    ([name, each]) =>
      /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) &&
      isText(0, MAX_VARIABLE_CHARS)(each) &&
      !(each as string).includes("\0"),
  )

type Shapes = Readonly<Record<string, Readonly<Record<string, Check>>>>

/** Accepts an object whose tag names one of the shapes, with the keys of that shape and no others. */
const isOneOf =
  (tag: string, shapes: Shapes): Check =>
  (value) => {
    if (!isRecord(value)) return false
    const name = value[tag]
    const shape = typeof name === "string" && Object.hasOwn(shapes, name) && shapes[name]
    if (!shape) return false
    return (
      Object.keys(value).every((key) => key === tag || Object.hasOwn(shape, key)) &&
      Object.entries(shape).every(([key, isValid]) =>
        isValid(Object.hasOwn(value, key) ? value[key] : undefined),
      )
    )
  }

const isCredential = isText(0, MAX_CREDENTIAL_CHARS)

const isCommit = matches(/^([0-9a-f]{40}|[0-9a-f]{64})$/)

const ANSWERS: Shapes = {
  repo: {
    commit: isCommit,
    branch: isAbsentOr(isText(1, MAX_BRANCH_CHARS)),
    bundled: isBoolean,
    shallow: isAbsentOr(isListOf(isCommit, MAX_SHALLOW)),
    authorName: isAbsentOr(isText(1, MAX_AUTHOR_CHARS)),
    authorEmail: isAbsentOr(isText(1, MAX_AUTHOR_CHARS)),
    url: isAbsentOr(isText(1, MAX_URL_CHARS)),
    absent: isAbsentOr(isText(1, MAX_REASON_CHARS)),
  },
  credential: { username: isCredential, password: isCredential },
  keys: { keys: isEnvironment },
  "host-port": {},
  refused: { code: isText(0, 128), reason: isText(0, MAX_REASON_CHARS) },
}

/** A person's answers to an agent's asks. */
const ASK_ANSWERS: Shapes = {
  permission: { ask: isText(1, MAX_NAME_CHARS), allow: isBoolean },
  question: { ask: isText(1, MAX_NAME_CHARS), answer: isNullOr(isText(0, MAX_QUESTION_CHARS)) },
}

const MESSAGES: Shapes = {
  hello: { generation: isInteger, sandbox: isSandboxId, lastSeen: isAtLeast(0) },
  acknowledge: { upTo: isAtLeast(1) },
  "prompt.start": {
    prompt: isPromptId,
    session: isSessionId,
    text: isText(1, MAX_PROMPT_CHARS),
    attachments: isAbsentOr(isListOf(isPath, MAX_ATTACHMENTS)),
    deadlineMs: isAbsentOr(isBetween(1000, MAX_PROMPT_MS)),
    agent: isAbsentOr((value) => value === "shell"),
  },
  "prompt.stop": { prompt: isPromptId },
  "prompt.answer": { prompt: isPromptId, answer: isOneOf("kind", ASK_ANSWERS) },
  answer: { id: isAskId, answer: isOneOf("kind", ANSWERS) },
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
