import { MAX_BOOT_STEPS, MAX_STEP_NAME_CHARS } from "@berth/protocol/boot-limits"
import { BerthError } from "@berth/protocol/errors"
import type { Step } from "./step.ts"

/** Steps that fit together: no cycle, every need known, every name once. */
export interface BootGraph<Context> {
  /** What a step needs stands before it; otherwise in the order of the list that it was built from. */
  readonly steps: readonly Step<Context>[]
}

/** Refuses what cannot run, when it is built, so that no boot ends half-way for it. */
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

/** What a timer can count to; a step without a limit is refused as well. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** Depth first: a step is taken after its needs. The path that led to it shows a cycle when it closes. */
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
