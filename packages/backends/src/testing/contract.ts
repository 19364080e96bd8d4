import { sized } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { afterAll, afterEach, beforeAll, describe, expect } from "vitest"
import { cacheCases } from "./contract/caches.ts"
import { exitCases } from "./contract/exit.ts"
import { failureCases } from "./contract/failures.ts"
import type { ContractHarness } from "./contract/harness.ts"
import { insideCases } from "./contract/inside.ts"
import { installationCases } from "./contract/installation.ts"
import { lifeCases } from "./contract/life.ts"
import { pauseCases } from "./contract/pause.ts"
import { ContractTestbed } from "./contract/testbed.ts"

interface ContractOptions {
  /** How many cases a partial run draws, where a twin of this backend passes the whole suite. Default: all. */
  readonly drawn?: number
}

/** The suite that every backend passes in full in a whole run, against the real thing. */
export const backendContract = (
  name: string,
  open: () => Promise<ContractHarness>,
  { drawn }: ContractOptions = {},
) => {
  const atOnce = sized(`sandboxes at once, ${name}`, { few: 6, all: 20 })
  describe(`backend contract: ${name}`, () => {
    const testbed = new ContractTestbed(open)

    beforeAll(() => testbed.open())

    afterEach(async () => {
      await testbed.removeMade()
      await testbed.expectEmpty()
    })

    afterAll(() => testbed.close())

    sampledCases(`cases of the backend contract, ${name}`, drawn, (it, describe) => {
      it("describes its engine and capabilities", async () => {
        expect(await testbed.backend.describe()).toMatchObject({
          backend: testbed.backend.name,
          engine: expect.stringMatching(/\d/),
          pause: expect.any(Boolean),
          layers: expect.any(Boolean),
          networks: expect.arrayContaining(["none"]),
          notes: expect.any(Array),
        })
      })

      lifeCases(testbed, it, describe, atOnce)
      exitCases(testbed, it, describe)
      pauseCases(testbed, it, describe)
      insideCases(testbed, it, describe)
      installationCases(testbed, it, describe)
      cacheCases(testbed, it, describe)
      failureCases(testbed, it, describe)
    })
  })
}
