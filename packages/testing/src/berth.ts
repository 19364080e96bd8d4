import { globSync, statSync } from "node:fs"
import { join } from "node:path"

const ROOT = join(import.meta.dirname, "../../..")
const BUNDLE = join(ROOT, "packages/cli/dist/bundle/berth.js")
const SOURCE = join(ROOT, "packages/cli/src/main.ts")

/** The variable that is set where the bundle is as new as the sources. */
const IS_BUILT = "BERTH_TEST_IS_BUILT"

/** Compares the bundle with the sources, once a run, for the processes that this one starts. */
export const lookAtBundle = (): void => {
  const madeAtMs = statSync(BUNDLE, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const isOlder = (file: string) => statSync(join(ROOT, file)).mtimeMs < madeAtMs
  const sources = globSync("packages/*/src/**/*.ts", { cwd: ROOT })
  if (sources.every((file) => file.endsWith(".test.ts") || isOlder(file)))
    process.env[IS_BUILT] = "yes"
}

/** Whether the bundle has been built from the sources as they are. */
export const isBuilt = process.env[IS_BUILT] !== undefined

/**
 * The command, on the Node that runs the tests: as it is installed, which starts in half the time, or from the sources
 * if they were changed since the last build.
 */
export const BERTH: readonly [string, ...string[]] = isBuilt
  ? [process.execPath, BUNDLE]
  : [process.execPath, "--conditions=source", SOURCE]
