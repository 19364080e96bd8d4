import { readFileSync } from "node:fs"
import type { BootPlan } from "@berth/protocol/boot-plan"
import { BerthError } from "@berth/protocol/errors"

/** The part of a plan that the socket's first answer needs. */
export type PlanHead = Pick<BootPlan, "sandbox" | "mode">

/**
 * Reads the sandbox's plan. `checkPlan` checks its form when the socket answers: the check takes a millisecond, which
 * the first answer does not wait for.
 */
export const readPlan = (path: string): PlanHead => {
  const value = parse(path)
  if (typeof value !== "object" || value === null) throw unusable(path, "plan is not an object")
  return value as PlanHead
}

const parse = (path: string): unknown => {
  try {
    return JSON.parse(readFileSync(path, "utf8"))
  } catch (thrown) {
    throw unusable(path, thrown instanceof Error ? thrown.message : String(thrown), thrown)
  }
}

export const unusable = (path: string, reason: string, cause?: unknown): BerthError =>
  new BerthError("boot.plan_unusable", `the plan ${path} cannot be used: ${reason}`, {
    details: { path, reason },
    cause,
  })
