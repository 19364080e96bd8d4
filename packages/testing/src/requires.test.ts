import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { runFixture } from "./fixtures/run.ts"

/** The whole $PATH of a child run, in which its requirements look for programs. */
let bin: string
beforeAll(async () => {
  bin = await mkdtemp(join(tmpdir(), "berth-requires-"))
})
afterAll(() => rm(bin, { recursive: true, force: true }))

const putStrace = (script: string) =>
  writeFile(join(bin, "strace"), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
const takeStrace = () => rm(join(bin, "strace"), { force: true })

const run = (fixture: string, { ci, args = [] }: { ci: boolean; args?: string[] }) =>
  runFixture(fixture, { PATH: bin, ...(ci ? { CI: "true" } : {}) }, args)

describe("requires", () => {
  it("skips tests that cannot run, says why, and lets the run pass", async () => {
    await takeStrace()
    const { status, output } = await run("needs-strace", { ci: false })
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
    const { status, output } = await run("needs-strace", { ci: true })
    expect(output).toContain("Skipped: 3 tests. With CI=true that is a failure.\n")
    expect(output).toContain("[skipped: needs strace: strace is not installed] (2)")
    expect(status).toBe(1)
  })

  it("tells a tool that does not work from a missing one", async () => {
    await putStrace("echo 'ptrace: Operation not permitted' >&2; exit 1")
    const { status, output } = await run("needs-strace", { ci: true })
    expect(output).toContain(
      "[skipped: needs strace: `strace -o /dev/null true` fails: ptrace: Operation not permitted] (2)",
    )
    expect(status).toBe(1)
  })

  it("runs all tests where the need is met", async () => {
    await putStrace("exit 0")
    const { status, output } = await run("needs-strace", { ci: true })
    expect(output).toMatch(/Tests +4 passed \(4\)/)
    expect(output).not.toContain("Skipped")
    expect(status).toBe(0)
  })
})

describe("the report of skipped tests", () => {
  it("names tests that were skipped by hand, with their note if they have one", async () => {
    const { status, output } = await run("skips-by-hand", { ci: true })
    expect(output).toContain("was switched off [skipped: no reason given] (1)")
    expect(output).toContain("gives up [skipped: the moon is full] (1)")
    expect(status).toBe(1)
  })

  it("leaves out tests that could not run because their suite failed, which is a failure already", async () => {
    const { status, output } = await run("hook-fails", { ci: true })
    expect(output).toContain("Error: no engine")
    expect(output).not.toContain("Skipped:")
    expect(status).toBe(1)
  })

  it("keeps quiet where a person picked tests by name", async () => {
    const { status, output } = await run("skips-by-hand", { ci: true, args: ["-t", "runs"] })
    expect(output).not.toContain("Skipped:")
    expect(status).toBe(0)
  })
})
