import { formOf } from "@berth/protocol/form-of"
import { TerminalClientMessage, TerminalStart } from "@berth/protocol/terminals"

export const terminalStart = formOf(TerminalStart)
export const terminalClientMessage = formOf(TerminalClientMessage)
