import { ServerMessage } from "@berth/protocol/bridge"
import { formOf } from "@berth/protocol/form-of"

export const serverMessage = formOf(ServerMessage)
