import type { Reporter, TestCase, TestModule, TestSuite, Vitest } from "vitest/node"
import { hasReason, withReason } from "./skip-reason.ts"

/**
 * Ends a run with the skipped tests and why. Where `strict` (CI=true) anything skipped fails the run, so that a suite
 * for which something of the machine is missing cannot look like a pass.
 */
export class SkipReporter implements Reporter {
  readonly #strict: boolean
  #byHand = false

  constructor({ strict }: { strict: boolean }) {
    this.#strict = strict
  }

  onInit(vitest: Vitest): void {
    // With a name pattern, a person chose some tests: the others are skipped on purpose.
    this.#byHand = vitest.config.testNamePattern !== undefined
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = modules
      .flatMap((module) => [...module.children.allTests("skipped")])
      .filter((test) => !isVictim(test))
    if (skipped.length === 0 || this.#byHand) return
    const lines = [...groupBySuite(skipped)].map(([title, count]) => `   ${title} (${count})`)
    const verdict = this.#strict ? " With CI=true that is a failure." : ""
    console.error(`\n Skipped: ${plural(skipped.length)}.${verdict}\n${lines.join("\n")}\n`)
    if (this.#strict) process.exitCode = 1
  }
}

/** Whether the suite of a test failed before the test ran. That failure is reported as such. */
const isVictim = (test: TestCase): boolean =>
  [test.module, ...lineage(test)].some((task) => task.type !== "test" && task.errors().length > 0)

/** The suites and tests that carry a reason, each with the number of tests that it stands for. */
const groupBySuite = (tests: readonly TestCase[]): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const test of tests) {
    const title = `${test.module.relativeModuleId} > ${nameWithReason(test)}`
    counts.set(title, (counts.get(title) ?? 0) + 1)
  }
  return counts
}

const nameWithReason = (test: TestCase): string => {
  const owner = lineage(test).find(({ name }) => hasReason(name))
  if (owner !== undefined) return owner.fullName
  const result = test.result()
  const note = result.state === "skipped" ? result.note : undefined
  return withReason(test.fullName, note ?? "no reason given")
}

/** The suites around a test, outermost first, and the test itself. */
const lineage = (test: TestCase): (TestCase | TestSuite)[] => {
  const line: (TestCase | TestSuite)[] = [test]
  for (let parent = test.parent; parent.type === "suite"; parent = parent.parent) {
    line.unshift(parent)
  }
  return line
}

const plural = (count: number): string => (count === 1 ? "1 test" : `${count} tests`)
