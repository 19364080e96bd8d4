import { CommandClientMessage, CommandSignalRequest, CommandStart } from "@berth/protocol/commands"
import { formOf } from "@berth/protocol/form-of"

export const commandStart = formOf(CommandStart)
export const commandSignalRequest = formOf(CommandSignalRequest)
export const commandClientMessage = formOf(CommandClientMessage)
