import {
  COMMAND_SIGNALS,
  COMMAND_USERS,
  MAX_COMMAND_TIMEOUT_MS,
} from "@berth/protocol/command-limits"
import {
  type Check,
  flag,
  kinds,
  listOf,
  mapOf,
  object,
  oneOf,
  text,
  wholeNumber,
} from "../shape.ts"

/** Checks of the protocol's `CommandStart`, `CommandSignalRequest` and `CommandClientMessage`. */

/** Accepts text without NUL, at which the kernel would end it. */
const systemText: Check = (value, at) =>
  text(value, at) ?? (String(value).includes("\0") ? `${at} holds a NUL character` : undefined)

const notEmpty: Check = (value, at) =>
  systemText(value, at) ?? (value === "" ? `${at} is empty` : undefined)

const commandLine: Check = (value, at) =>
  listOf(systemText, 1)(value, at) ?? notEmpty((value as string[])[0], `${at}[0]`)

const variables: Check = (value, at) => {
  const problem = mapOf(systemText)(value, at)
  if (problem !== undefined) return problem
  const wrong = Object.keys(value as object).find((name) => name === "" || /[=\0]/.test(name))
  return wrong === undefined
    ? undefined
    : `${at} names ${JSON.stringify(wrong)}: no variable's name`
}

const timeout: Check = (value, at) =>
  wholeNumber(value, at) ??
  ((value as number) >= 1 && (value as number) <= MAX_COMMAND_TIMEOUT_MS
    ? undefined
    : `${at} is not from 1 to ${MAX_COMMAND_TIMEOUT_MS}`)

const signal = oneOf(...COMMAND_SIGNALS)

export const commandStart = object(
  { command: commandLine },
  {
    cwd: notEmpty,
    env: variables,
    user: oneOf(...COMMAND_USERS),
    timeoutMs: timeout,
    stdin: flag,
  },
)

export const signalRequest = object({ signal })

export const clientMessage = kinds("type", {
  "stdin.end": object({ type: text }),
  signal: object({ type: text, signal }),
})
