import { globSync, readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import { lookAtBundle } from "./packages/testing/src/berth.ts"
import { EmptyReporter } from "./packages/testing/src/empty-reporter.ts"
import { SampleReporter } from "./packages/testing/src/sample-reporter.ts"
import { SkipReporter } from "./packages/testing/src/skip-reporter.ts"

/** The file for a machine-readable report, if one is wanted. */
const reportFile = process.env.BERTH_TEST_REPORT

// Processes that tests start from the source share the code that node compiles.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "node_modules/.cache/compiled")

lookAtBundle()

const TESTS = ["packages/*/src/**/*.test.ts", "e2e/**/*.test.ts", "bench/**/*.test.ts"]

/** Matches test files that start programs, or that change or measure their own process. */
const ALONE =
  /requires\(|child_process|fixtures\/run|testing\/(berth|child|family|stage|start)|globalThis|memoryUsage|process\.(?!arch|execPath|hrtime|pid|version)|\bvi\./

/** The other test files share a few processes: starting one takes longer than most of the files do. */
const together = globSync(TESTS, { cwd: import.meta.dirname }).filter(
  (file) => !file.startsWith("e2e/") && !ALONE.test(readFileSync(file, "utf8")),
)

/** Tests of whole systems take longest, however short their files are. */
const SYSTEMS = /\/(e2e|backends\/src|layers\/src|src\/agents|src\/commands)\//

/** Runs long files first, so that none of them runs alone in the end. */
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
          // Set-ups end in the reverse order. The engine's fails the run if tests left something in it, and no set-up would end after it.
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
    // Tests wait for processes more than they compute, so there is more than one worker a core. With more than three, a
    // machine of two cores misses deadlines.
    maxWorkers: Math.max(3, Math.floor(availableParallelism() / 2)),
    // The limit is for tests that hang: on a busy machine, a test of seconds takes many times as long.
    testTimeout: 90_000,
    // Polled conditions hold within a second; on a busy machine, later.
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
