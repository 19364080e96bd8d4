import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Reporter } from "vitest/node"
import { readSamples, SAMPLES, type Sample } from "./samples.ts"
import { runSeed } from "./seed.ts"

/** Prints a run's seed at its beginning, and at its end the suites that took only a part. */
export class SampleReporter implements Reporter {
  readonly #directory = mkdtempSync(join(tmpdir(), "berth-test-samples-"))
  readonly #file = join(this.#directory, "samples")

  constructor() {
    // Set before any worker starts: each inherits both.
    process.env[SAMPLES] = this.#file
    runSeed()
    process.once("exit", () => rmSync(this.#directory, { recursive: true, force: true }))
  }

  onTestRunStart(): void {
    writeFileSync(this.#file, "")
    console.log(` Seed: ${runSeed()} (BERTH_SEED=${runSeed()} draws the same again)\n`)
  }

  onTestRunEnd(): void {
    const samples = readSamples(this.#file)
    if (samples.length === 0) return
    const lines = samples.map((sample) => `   ${said(sample)}`)
    console.log(`\n Sampled; npm run test:all leaves nothing out:\n${lines.join("\n")}\n`)
  }
}

const said = ({ what, taken, of, isDrawn }: Sample): string => {
  const part = `${what}: ${taken.toLocaleString("en")} of ${of.toLocaleString("en")}`
  return isDrawn ? `${part}, seed ${runSeed()}` : part
}
