import { describe, expect, it } from "vitest"
import { runFixture } from "./fixtures/run.ts"

const REPORT = " Without a test, which is a failure:\n"

describe("a run", () => {
  it("fails with a file that has no test", async () => {
    const { status, output } = await runFixture("empty-file", {})
    expect(output).toContain(`${REPORT}   empty-file.fixture.ts\n`)
    expect(status).toBe(1)
  })

  it("fails with a suite that has no test, and names no other", async () => {
    const { status, output } = await runFixture("empty-suites", {})
    expect(output).toContain(
      `${REPORT}   empty-suites.fixture.ts > is whole > has lost its tests\n\n`,
    )
    expect(output).toMatch(/Tests +2 passed/)
    expect(status).toBe(1)
  })

  it("fails with a suite that has no test in a file whose other cases were drawn elsewhere", async () => {
    const { status, output } = await runFixture("empty-beside-drawn", {})
    const title = "empty-beside-drawn.fixture.ts > has lost its tests"
    expect(output).toContain(`${REPORT}   ${title}\n\n`)
    expect(status).toBe(1)
  })

  it("passes with a file whose cases were drawn elsewhere", async () => {
    const { status, output } = await runFixture("empty-drawn", {})
    expect(output).not.toContain(REPORT)
    expect(status, output).toBe(0)
  })

  it("does not report a suite whose hook failed", async () => {
    const { status, output } = await runFixture("hook-fails", {})
    expect(output).not.toContain(REPORT)
    expect(status).toBe(1)
  })
})
