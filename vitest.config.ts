import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"
import { SkipReporter } from "./packages/testing/src/skip-reporter.ts"

/** Where a machine reads the results; unset, only people do. */
const reportFile = process.env.BERTH_TEST_REPORT

// Every process that tests start from the source finds there what the one before it compiled.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "node_modules/.cache/compiled")

export default defineConfig({
  resolve: { conditions: ["source"] },
  ssr: { resolve: { conditions: ["source"] } },
  test: {
    include: ["packages/*/src/**/*.test.ts", "e2e/**/*.test.ts", "bench/**/*.test.ts"],
    globalSetup: ["e2e/toolboxes/setup.ts"],
    // They wait for processes more than they compute, so more than one a core; more than this, and a machine of
    // two cores misses deadlines.
    maxWorkers: Math.max(3, Math.floor(availableParallelism() / 2)),
    testTimeout: 30_000,
    // What is polled for comes within a second; on a busy machine, later.
    expect: { poll: { timeout: 20_000 } },
    hookTimeout: 60_000,
    reporters: [
      "default",
      ...(reportFile ? [["json", { outputFile: reportFile }] as ["json", object]] : []),
      new SkipReporter({ strict: process.env.CI === "true" }),
    ],
  },
})
