import { BootPlan } from "@berth/protocol/boot-plan"
import { formOf } from "@berth/protocol/form-of"

export const bootPlan = formOf(BootPlan)
