import { MAX_TERMINAL_CELLS } from "@berth/protocol/terminal-limits"
import type { TerminalClientMessage } from "@berth/protocol/terminals"
import { type Check, kinds, listOf, mapOf, object, text } from "../shape.ts"

const systemText: Check = (value, at) =>
  text(value, at) ?? ((value as string).includes("\0") ? `${at} holds a NUL character` : undefined)

const filledText: Check = (value, at) =>
  systemText(value, at) ?? (value === "" ? `${at} is empty` : undefined)

const command: Check = (value, at) =>
  listOf(systemText, 1)(value, at) ?? filledText((value as string[])[0], `${at}[0]`)

const variables: Check = (value, at) => {
  const problem = mapOf(systemText)(value, at)
  if (problem !== undefined) return problem
  const isName = (name: string) => name !== "" && !/[=\0]/.test(name)
  return Object.keys(value as object).every(isName) ? undefined : `${at} has a wrong name`
}

const cells: Check = (value, at) =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_TERMINAL_CELLS
    ? undefined
    : `${at} is not a number from 1 to ${MAX_TERMINAL_CELLS}`

/** Checks a `TerminalStart`. */
export const terminalStart: Check = object(
  { cols: cells, rows: cells },
  { command, cwd: filledText, env: variables },
)

const clientMessage = kinds("type", {
  resize: object({ type: text, cols: cells, rows: cells }),
})

/** Parses a client's message; undefined if it is invalid. */
export const parseClientMessage = (data: string): TerminalClientMessage | undefined => {
  try {
    const value: unknown = JSON.parse(data)
    return clientMessage(value, "message") === undefined
      ? (value as TerminalClientMessage)
      : undefined
  } catch {
    return undefined
  }
}
