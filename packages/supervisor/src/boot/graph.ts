import { MAX_BOOT_STEPS, MAX_STEP_NAME_CHARS } from "@berth/protocol/boot-limits"
import { BerthError } from "@berth/protocol/errors"
import type { Step } from "./step.ts"

/** Steps without a cycle, with unique names, and only with needs that exist. */
export interface BootGraph<Context> {
  /** Ordered so that a step comes after its needs, else in the order of the given list. */
  readonly steps: readonly Step<Context>[]
}

/** Builds a graph. Refuses steps that cannot run, so that no boot fails half-way because of them. */
export const buildGraph = <Context>(steps: readonly Step<Context>[]): BootGraph<Context> => {
  const byName = new Map<string, Step<Context>>()
  if (steps.length > MAX_BOOT_STEPS)
    refuse(`there are more than ${MAX_BOOT_STEPS} steps`, { steps: steps.length })
  for (const step of steps) {
    if (step.name === "" || step.name.length > MAX_STEP_NAME_CHARS)
      refuse(`"${step.name}" cannot name a step`, { step: step.name })
    if (byName.has(step.name)) refuse(`there are two steps ${step.name}`, { step: step.name })
    if (!(step.timeoutMs > 0 && step.timeoutMs <= MAX_TIMEOUT_MS))
      refuse(`step ${step.name} has no usable time limit`, { step: step.name })
    byName.set(step.name, step)
  }
  for (const { name, needs } of steps)
    for (const need of needs)
      if (!byName.has(need))
        refuse(`step ${name} needs ${need}, which does not exist`, { step: name, need })
  return { steps: sorted(steps, byName) }
}

/** The longest time that a timer can count. A step without a limit is refused as well. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** Sorts depth first: a step comes after its needs. The path to a step shows a cycle. */
const sorted = <Context>(
  steps: readonly Step<Context>[],
  byName: ReadonlyMap<string, Step<Context>>,
): Step<Context>[] => {
  const taken = new Set<Step<Context>>()
  const visit = (step: Step<Context>, path: readonly string[]): void => {
    if (taken.has(step)) return
    const here = [...path, step.name]
    if (path.includes(step.name)) {
      const cycle = here.slice(path.indexOf(step.name))
      refuse(`the steps need each other in a circle: ${cycle.join(" → ")}`, { cycle })
    }
    for (const need of step.needs) visit(byName.get(need) as Step<Context>, here)
    taken.add(step)
  }
  for (const step of steps) visit(step, [])
  return [...taken]
}

const refuse = (problem: string, details: Record<string, unknown>): never => {
  throw new BerthError("boot.graph_invalid", problem, { details })
}
