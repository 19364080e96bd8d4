import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { runFixture } from "./fixtures/run.ts"

/** Runs both fixtures, each in a worker of its own, and returns the output. Expects that no file is left behind. */
const runBoth = async (environment: Readonly<Record<string, string>> = {}) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-sampled-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const { status, stdout } = await runFixture("samples-", { TMPDIR: directory, ...environment })
  expect(status, stdout).toBe(0)
  expect(readdirSync(directory).filter((name) => name.startsWith("berth-"))).toEqual([])
  return {
    stdout,
    seed: /^ Seed: (\d+) /m.exec(stdout)?.[1],
    drawn: /^drawn (.*)\.$/m.exec(stdout)?.[1]?.split(" "),
  }
}

describe("a run that samples", () => {
  it("reports in its last lines how many of how many each suite took by which seed, which draws the same each time", async () => {
    const { stdout, drawn } = await runBoth({ BERTH_SEED: "1720" })
    expect(stdout).toMatch(
      /\n Sampled; npm run test:all leaves nothing out:\n {3}commands: 300 of 1,000\n {3}crash points: 3 of 42, seed 1720\n {3}steps: 3 of 7, seed 1720\n*$/,
    )
    expect(drawn).toEqual(["21", "25", "28"])
  })

  it("takes another seed each time, and draws other items by it", async () => {
    const first = await runBoth()
    const second = await runBoth()
    expect(first.seed).toMatch(/^\d+$/)
    expect(second.seed).not.toBe(first.seed)
    // Three of 42 can be the same for two seeds, but not for this one and 1720.
    expect((await runBoth({ BERTH_SEED: "1" })).drawn).toEqual(["22", "34", "37"])
  })

  it("takes everything and reports no sample where nothing is to be left out", async () => {
    const { stdout, drawn } = await runBoth({ BERTH_TEST_ALL: "1" })
    expect(drawn).toHaveLength(42)
    expect(stdout).not.toContain("Sampled")
    expect(stdout).toMatch(/Tests +8 passed/)
  })
})
