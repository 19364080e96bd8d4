import type { Reporter, TestModule, TestSuite } from "vitest/node"
import type {} from "./left-out.ts"

/**
 * Fails a run in which a file or a suite has no test, unless the run's seed has drawn its cases elsewhere. Vitest itself
 * allows all or none.
 */
export class EmptyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const empty = modules.flatMap((module) => emptyIn(module, module.relativeModuleId))
    if (empty.length === 0) return
    const lines = empty.map((title) => `   ${title}`)
    console.error(`\n Without a test, which is a failure:\n${lines.join("\n")}\n`)
    process.exitCode = 1
  }
}

type Holder = TestModule | TestSuite

/** The titles of the outermost empty suites; of the file itself if it has no test at all. */
const emptyIn = (holder: Holder, title: string): readonly string[] => {
  // A file that does not load, or a suite that cannot be described, is a failure already.
  if (mayBeEmpty(holder) || holder.errors().length > 0) return []
  if (isEmpty(holder) && !hasLeftOut(holder)) return [title]
  return suitesIn(holder).flatMap((suite) => emptyIn(suite, `${title} > ${suite.name}`))
}

const isEmpty = ({ children }: Holder): boolean => children.allTests().next().done === true

const suitesIn = ({ children }: Holder): readonly TestSuite[] => [...children.suites()]

const mayBeEmpty = (holder: Holder): boolean => holder.meta().mayBeEmpty === true

/** Whether a suite in it may be empty. */
const hasLeftOut = ({ children }: Holder): boolean => [...children.allSuites()].some(mayBeEmpty)
