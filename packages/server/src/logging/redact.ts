import { BerthError, type ErrorCode } from "@berth/protocol/errors"
import { ASSIGNED_SECRET, isEnvironmentKey, isSecretKey } from "./secret-keys.ts"
import { REDACTED } from "./secrets.ts"

/** Deeper than anything worth logging. Values below are left out, never written unseen. */
const MAX_DEPTH = 16

/** Makes a plain copy for the log, without values under secret names at any depth. Never throws. */
export const redact = (value: unknown): unknown => copy(value, [])

const copy = (value: unknown, ancestors: readonly object[]): unknown => {
  if (typeof value === "string") return redactText(value)
  if (typeof value === "bigint") return String(value)
  if (typeof value !== "object" || value === null) return value
  if (ancestors.includes(value)) return "[circular]"
  if (ancestors.length >= MAX_DEPTH) return "[too deep]"
  try {
    return copyObject(value, [...ancestors, value])
  } catch {
    return "[unreadable]"
  }
}

const copyObject = (value: object, ancestors: readonly object[]): unknown => {
  if (value instanceof Error) return copyFields(errorFields(value), ancestors)
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
  if (value instanceof Map) return copyFields(mapFields(value), ancestors)
  if (Array.isArray(value) || value instanceof Set) {
    return Array.from(value, (item) => copy(item, ancestors))
  }
  if ("toJSON" in value && typeof value.toJSON === "function") {
    return copy(value.toJSON(), ancestors)
  }
  return copyFields(Object.entries(value), ancestors)
}

type Fields = readonly (readonly [key: string, value: unknown])[]

const copyFields = (fields: Fields, ancestors: readonly object[]) =>
  Object.fromEntries(
    fields.map(([key, value]) => {
      if (isSecretKey(key)) return [key, hide(value)]
      if (isEnvironmentKey(key)) return [key, hideEnvironment(value)]
      return [key, copy(value, ancestors)]
    }),
  )

/**
 * Hides a value, unless it is a number, which is a count (of tokens, say), or a boolean, which is a setting: neither is
 * a secret.
 */
const hide = (value: unknown): unknown =>
  value === undefined || value === null || typeof value === "number" || typeof value === "boolean"
    ? value
    : REDACTED

/** Hides the values of an environment. It comes as `{ NAME: value }`, as `["NAME=value"]` or as `[{ name, value }]`. */
const hideEnvironment = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return hide(value)
  if (!Array.isArray(value)) {
    const fields = value instanceof Map ? mapFields(value) : Object.entries(value)
    return Object.fromEntries(fields.map(([name]) => [name, REDACTED]))
  }
  return value.map((item) => {
    if (typeof item === "string") return `${item.split("=")[0]}=${REDACTED}`
    return hideEnvironment(item)
  })
}

const mapFields = (map: Map<unknown, unknown>): Fields =>
  [...map].map(([key, value]) => [String(key), value])

/** Errors that quote output of a hook or an agent, which can hold secrets that the server does not know. */
const QUOTES_SANDBOX: readonly ErrorCode[] = ["boot.failed", "workspace.failing"]

const quotesSandbox = (error: Error): error is BerthError =>
  error instanceof BerthError && QUOTES_SANDBOX.includes(error.code)

/** The fields of an error. Message, stack, cause and members are not enumerable, so a plain copy would lose them. */
const errorFields = (error: Error): Fields =>
  quotesSandbox(error)
    ? [
        ["type", error.name],
        ["code", error.code],
        ["message", REDACTED],
      ]
    : [
        ["type", error.name],
        ["message", error.message],
        ["stack", error.stack],
        ...(error.cause === undefined ? [] : [["cause", error.cause] as const]),
        ...(error instanceof AggregateError ? [["errors", error.errors] as const] : []),
        ...Object.entries(error).filter(([key]) => key !== "name"),
      ]

const redactText = (text: string): string => text.replaceAll(ASSIGNED_SECRET, `$1$2${REDACTED}`)
