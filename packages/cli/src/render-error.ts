import { BerthError, toWireError } from "@berth/protocol/errors"
import { printable } from "./terminal.ts"

/** An error for a person: what failed, on what, what to try. With `json`, as it travels over the wire. */
export const renderError = (error: unknown, { json }: { json: boolean }): string => {
  if (json) return `${JSON.stringify({ error: toWireError(error) })}\n`
  if (!(error instanceof BerthError)) return `berth: ${defect(error)}\n`
  const lines = [
    `berth: ${error.message}`,
    ...Object.entries(error.details).flatMap(renderDetail),
    `  hint: ${error.hint}`,
  ]
  return printable(`${lines.join("\n")}\n`)
}

const renderDetail = ([key, value]: [string, unknown]): string[] => {
  if (value === undefined) return []
  if (Array.isArray(value) && value.every(hasMessage)) {
    return value.map(({ message }) => `  - ${message}`)
  }
  return [`  ${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`]
}

const hasMessage = (value: unknown): value is { message: string } =>
  typeof value === "object" && value !== null && "message" in value

/** A defect is shown whole, as its reader will report it. */
const defect = (error: unknown): string =>
  `this is a defect in Berth, please report it:\n${error instanceof Error ? error.stack : String(error)}`
