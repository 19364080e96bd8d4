import { BerthError, toWireError } from "@berth/protocol/errors"
import { toJsonLine } from "./command.ts"
import { printable } from "./terminal.ts"

/** An error for a person: what failed, on what, what to try. With `json`, the wire error. */
export const renderError = (error: unknown, { json }: { json: boolean }): string => {
  if (json) return toJsonLine({ error: toWireError(error) })
  if (!(error instanceof BerthError)) return printable(`berth: ${defect(error)}\n`)
  const lines = [
    `berth: ${marked(error.message)}`,
    ...Object.entries(error.details).flatMap(renderDetail).map(marked),
    `  hint: ${error.hint}`,
  ]
  return printable(`${lines.join("\n")}\n`)
}

/** Marks further lines of foreign text, so that they are told from Berth's own, above all the hint. */
const marked = (text: string): string => text.trimEnd().replaceAll("\n", "\n  | ")

const renderDetail = ([key, value]: [string, unknown]): string[] => {
  if (value === undefined) return []
  if (Array.isArray(value) && value.every(hasMessage)) {
    return value.map(({ message }) => `  - ${message}`)
  }
  return [`  ${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`]
}

const hasMessage = (value: unknown): value is { message: string } =>
  typeof value === "object" && value !== null && "message" in value

/** A defect is shown whole, so that its reader can report it. */
const defect = (error: unknown): string =>
  `this is a defect in Berth, please report it:\n${error instanceof Error ? error.stack : String(error)}`
