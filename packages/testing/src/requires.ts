import { describe, it, type TestContext } from "vitest"
import { REQUIREMENTS, type RequirementName } from "./requirements.ts"
import { withReason } from "./skip-reason.ts"

export interface Requiring {
  describe(title: string, body: () => void): void
  it(title: string, body: (context: TestContext) => unknown, timeoutMs?: number): void
}

/**
 * Tests that need something of the machine: `requires("root", "docker").describe("…", () => { … })`. Where it cannot be
 * had they are skipped, and their title says why; with CI=true that fails the run.
 */
export const requires = (...names: [RequirementName, ...RequirementName[]]): Requiring => {
  const unmet = names.flatMap((name) => {
    const reason = reasonFor(name)
    return reason === undefined ? [] : [`needs ${name}: ${reason}`]
  })
  if (unmet.length === 0) return { describe, it }
  const reason = unmet.join("; ")
  return {
    describe: (title, body) => describe.skip(withReason(title, reason), body),
    it: (title, body, timeoutMs) => it.skip(withReason(title, reason), body, timeoutMs),
  }
}

/** Each probe runs once in a process: its answer does not change while tests run. */
const reasonFor = (name: RequirementName): string | undefined => {
  if (!reasons.has(name)) reasons.set(name, REQUIREMENTS[name]())
  return reasons.get(name)
}

const reasons = new Map<RequirementName, string | undefined>()
