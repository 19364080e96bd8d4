import { globSync, readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { lookAtBundle } from "./packages/testing/src/berth.ts"
import { EmptyReporter } from "./packages/testing/src/empty-reporter.ts"
import { SampleReporter } from "./packages/testing/src/sample-reporter.ts"
import { SkipReporter } from "./packages/testing/src/skip-reporter.ts"

/** Where a machine reads the results; unset, only people do. */
const reportFile = process.env.BERTH_TEST_REPORT

// Every process that tests start from the source finds there what the one before it compiled.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "node_modules/.cache/compiled")

lookAtBundle()

const TESTS = ["packages/*/src/**/*.test.ts", "e2e/**/*.test.ts", "bench/**/*.test.ts"]

/** Of those that start programs, or change or measure the process that they run in. */
const ALONE =
  /requires\(|child_process|fixtures\/run|testing\/(berth|child|family|stage|start)|globalThis|memoryUsage|process\.(?!arch|execPath|hrtime|pid|version)|\bvi\./

/** The others share a few processes: starting one takes longer than most of them do. */
const together = globSync(TESTS, { cwd: import.meta.dirname }).filter(
  (file) => !file.startsWith("e2e/") && !ALONE.test(readFileSync(file, "utf8")),
)

/** Whole systems take longest, however short the file is that names what they go through. */
const SYSTEMS = /\/(e2e|src\/agents|src\/backends|src\/layers|src\/commands)\//

/** What takes long comes first, so that none of it runs on its own in the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) =>
      project.name === "together" ? 2 : SYSTEMS.test(moduleId) ? 0 : 1
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  resolve: { conditions: ["source"] },
  ssr: { resolve: { conditions: ["source"] } },
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "alone",
          include: TESTS,
          exclude: together,
          // They end in the reverse order; the engine's fails the run for what tests left in it, and none would end after that.
          globalSetup: [
            "packages/testing/src/reachable.ts",
            "packages/testing/src/memory-disk.ts",
            "packages/testing/src/left-witnesses.ts",
            "packages/testing/src/docker/shared-setup.ts",
            "e2e/toolboxes/setup.ts",
          ],
        },
      },
      { extends: true, test: { name: "together", include: together, isolate: false } },
    ],
    // A suite of which a run draws no case is empty. The reporter fails a run in which another suite or a file is. A run
    // without any test fails all the same: `.ci/run` counts them.
    passWithNoTests: true,
    sequence: { sequencer: LongestFirst },
    // They wait for processes more than they compute, so more than one a core; more than this, and a machine of
    // two cores misses deadlines.
    maxWorkers: Math.max(3, Math.floor(availableParallelism() / 2)),
    // For what hangs: on a machine that does something else as well, a test of seconds takes many times as long.
    testTimeout: 90_000,
    // What is polled for comes within a second; on a busy machine, later.
    expect: { poll: { timeout: 45_000 } },
    hookTimeout: 120_000,
    reporters: [
      "default",
      ...(reportFile ? [["json", { outputFile: reportFile }] as ["json", object]] : []),
      new SkipReporter({ strict: process.env.CI === "true" }),
      new SampleReporter(),
      new EmptyReporter(),
    ],
  },
})
