import type { TerminalClientMessage } from "@berth/protocol/terminals"
import { problemIn } from "../checks/check.ts"
import { terminalClientMessage } from "../checks/forms/terminals.ts"

/** Parses a client's message; undefined if it is invalid. */
export const parseClientMessage = (data: string): TerminalClientMessage | undefined => {
  try {
    const value: unknown = JSON.parse(data)
    return problemIn(terminalClientMessage, value, "message") === undefined
      ? (value as TerminalClientMessage)
      : undefined
  } catch {
    return undefined
  }
}
