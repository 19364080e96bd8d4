import type { BootPlan } from "@berth/protocol/boot-plan"
import { problemIn } from "./checks/check.ts"
import { bootPlan } from "./checks/forms/plan.ts"
import { type PlanHead, unusable } from "./plan.ts"

/** The plan that was read from the path, if it has the form of one. Throws otherwise. */
export const checkPlan = (plan: PlanHead, path: string): BootPlan => {
  const problem = problemIn(bootPlan, plan, "plan")
  if (problem !== undefined) throw unusable(path, problem)
  return plan as BootPlan
}
