import { formOf } from "@berth/protocol/form-of"
import { PortControl } from "@berth/protocol/ports"

export const portControl = formOf(PortControl)
