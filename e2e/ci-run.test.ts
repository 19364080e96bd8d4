import { spawn } from "node:child_process"
import { once } from "node:events"
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { afterEach, beforeEach, describe, expect, it } from "vitest"

const script = fileURLToPath(new URL("../.ci/run", import.meta.url))

/** A checkout with nothing but the script, and an npm that plays a run. */
let checkout: string
beforeEach(async () => {
  checkout = await mkdtemp(join(tmpdir(), "berth-ci-"))
  await mkdir(join(checkout, ".ci"))
  await mkdir(join(checkout, "bin"))
  await cp(script, join(checkout, ".ci/run"))
})
afterEach(() => rm(checkout, { recursive: true, force: true }))

interface Play {
  readonly install?: number
  readonly test?: number
  readonly check?: number
  readonly report?: object | string
}

const test = (status: string) => ({ status })
const report = (...files: { status: string; tests: string[] }[]) => {
  const all = files.flatMap(({ tests }) => tests)
  return {
    numTotalTests: all.length,
    numPassedTests: all.filter((status) => status === "passed").length,
    testResults: files.map(({ status, tests }) => ({ status, assertionResults: tests.map(test) })),
  }
}

const run = async ({ install = 0, test: tested = 0, check = 0, report: written }: Play) => {
  const reportFile = join(checkout, "report.json")
  if (written !== undefined) {
    await writeFile(reportFile, typeof written === "string" ? written : JSON.stringify(written))
  }
  await writeFile(
    join(checkout, "bin/npm"),
    `#!/bin/sh
echo "$* CI=$CI in $(pwd) stdin=$(wc -c)" >> '${checkout}/calls'
case "$*" in
  ci) exit ${install} ;;
  test) [ -e '${reportFile}' ] && cat '${reportFile}' > "$BERTH_TEST_REPORT"; exit ${tested} ;;
  "run check") echo "checked" >&2; exit ${check} ;;
esac`,
    { mode: 0o755 },
  )
  const child = spawn(join(checkout, ".ci/run"), {
    cwd: "/",
    env: { PATH: `${join(checkout, "bin")}:${dirname(process.execPath)}:/usr/bin:/bin` },
    stdio: ["pipe", "pipe", "inherit"],
  })
  const ended = once(child, "close")
  const output = await text(child.stdout)
  child.stdin.end()
  const [status] = (await ended) as [number | null]
  const calls = (await readFile(join(checkout, "calls"), "utf8")).trim().split("\n")
  return { status, lastLine: output.trimEnd().split("\n").at(-1), calls }
}

const GOOD = report({ status: "passed", tests: ["passed", "passed"] })

describe(".ci/run", () => {
  it("installs, tests and checks in the checkout, with CI=true and nothing on standard input", async () => {
    const { status, lastLine, calls } = await run({ report: GOOD })
    const where = `CI=true in ${checkout} stdin=0`
    expect(calls).toEqual([`ci ${where}`, `test ${where}`, `run check ${where}`])
    expect(lastLine).toBe("2 passed, 0 failed")
    expect(status).toBe(0)
  })

  it.each<[string, Play, string]>([
    [
      "a test failed",
      { test: 1, report: report({ status: "failed", tests: ["passed", "failed"] }) },
      "1 passed, 1 failed",
    ],
    [
      "a test was skipped",
      { test: 1, report: report({ status: "passed", tests: ["passed", "skipped", "todo"] }) },
      "1 passed, 2 failed",
    ],
    [
      "a test was skipped and the run passed",
      { report: report({ status: "passed", tests: ["passed", "pending"] }) },
      "1 passed, 1 failed",
    ],
    [
      "a test file could not be loaded",
      {
        test: 1,
        report: report({ status: "passed", tests: ["passed"] }, { status: "failed", tests: [] }),
      },
      "1 passed, 1 failed",
    ],
    ["the run failed although no test did", { test: 1, report: GOOD }, "2 passed, 1 failed"],
    ["no test ran", { report: report() }, "0 passed, 1 failed"],
    ["there is no report", { test: 1 }, "0 passed, 1 failed"],
    ["the report is cut", { test: 1, report: '{"numPassed' }, "0 passed, 1 failed"],
    ["the installation failed", { install: 1, report: GOOD }, "0 passed, 1 failed"],
    ["the check failed", { check: 2, report: GOOD }, "2 passed, 1 failed"],
  ])("fails when %s", async (_, play, expected) => {
    const { status, lastLine } = await run(play)
    expect(lastLine).toBe(expected)
    expect(status).toBe(1)
  })
})
