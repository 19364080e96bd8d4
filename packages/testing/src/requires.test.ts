import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"

const vitestCli = join(
  dirname(createRequire(import.meta.url).resolve("vitest/package.json")),
  "vitest.mjs",
)
const config = fileURLToPath(new URL("./fixtures/vitest.config.ts", import.meta.url))

/** The whole $PATH of a child run: what it holds is what the child's requirements find. */
let bin: string
beforeAll(async () => {
  bin = await mkdtemp(join(tmpdir(), "berth-requires-"))
})
afterAll(() => rm(bin, { recursive: true, force: true }))

const putStrace = (script: string) =>
  writeFile(join(bin, "strace"), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
const takeStrace = () => rm(join(bin, "strace"), { force: true })

/** Runs one fixture under a vitest of its own, with nothing of this one's environment. */
const runFixture = async (fixture: string, { ci, args = [] }: { ci: boolean; args?: string[] }) => {
  const child = spawn(process.execPath, [vitestCli, "run", "--config", config, fixture, ...args], {
    env: { PATH: bin, NO_COLOR: "1", ...(ci ? { CI: "true" } : {}) },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const ended = once(child, "close")
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  const [status] = (await ended) as [number | null]
  return { status, output: stdout + stderr }
}

describe("requires", () => {
  it("skips what cannot run, says why, and lets the run pass", async () => {
    await takeStrace()
    const { status, output } = await runFixture("needs-strace", { ci: false })
    expect(output).toContain("Skipped: 3 tests.\n")
    expect(output).toContain(
      "needs-strace.fixture.ts > an outer suite > a suite that traces [skipped: needs strace: strace is not installed] (2)",
    )
    expect(output).toContain(
      "an outer suite > a test that traces [skipped: needs strace: strace is not installed] (1)",
    )
    expect(output).toMatch(/Tests +1 passed \| 3 skipped/)
    expect(status).toBe(0)
  })

  it("fails the run with CI=true, with the same list", async () => {
    await takeStrace()
    const { status, output } = await runFixture("needs-strace", { ci: true })
    expect(output).toContain("Skipped: 3 tests. With CI=true that is a failure.\n")
    expect(output).toContain("[skipped: needs strace: strace is not installed] (2)")
    expect(status).toBe(1)
  })

  it("tells what is installed but does not work from what is missing", async () => {
    await putStrace("echo 'ptrace: Operation not permitted' >&2; exit 1")
    const { status, output } = await runFixture("needs-strace", { ci: true })
    expect(output).toContain(
      "[skipped: needs strace: `strace -o /dev/null true` fails: ptrace: Operation not permitted] (2)",
    )
    expect(status).toBe(1)
  })

  it("runs everything where the need is met", async () => {
    await putStrace("exit 0")
    const { status, output } = await runFixture("needs-strace", { ci: true })
    expect(output).toMatch(/Tests +4 passed \(4\)/)
    expect(output).not.toContain("Skipped")
    expect(status).toBe(0)
  })
})

describe("the report of skipped tests", () => {
  it("names those that were skipped by hand, with their note if they have one", async () => {
    const { status, output } = await runFixture("skips-by-hand", { ci: true })
    expect(output).toContain("was switched off [skipped: no reason given] (1)")
    expect(output).toContain("gives up [skipped: the moon is full] (1)")
    expect(status).toBe(1)
  })

  it("leaves out what could not run because its suite failed: that is a failure already", async () => {
    const { status, output } = await runFixture("hook-fails", { ci: true })
    expect(output).toContain("Error: no engine")
    expect(output).not.toContain("Skipped:")
    expect(status).toBe(1)
  })

  it("keeps quiet where a person picked tests by name", async () => {
    const { status, output } = await runFixture("skips-by-hand", { ci: true, args: ["-t", "runs"] })
    expect(output).not.toContain("Skipped:")
    expect(status).toBe(0)
  })
})
