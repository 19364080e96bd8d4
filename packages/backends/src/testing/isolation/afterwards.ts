import { describe, expect, it } from "vitest"
import { GRACE_MS, type IsolationTestbed } from "./testbed.ts"

/** The host and the neighbour, after the attempts of all other subjects. */
export const afterwards = (testbed: IsolationTestbed): void => {
  describe("the host after all attempts", () => {
    it("has its devices, mounted file, name and handler of core dumps as before", async () => {
      expect(await testbed.planted.look()).toEqual(testbed.before)
    })
  })

  describe("the neighbour after all attempts", () => {
    it("has its files and its memory, and was never signalled", async () => {
      await testbed.harness.backend.stop(testbed.neighbour, { graceMs: GRACE_MS })
      const output = await testbed.harness.backend.logs(testbed.neighbour)
      const told = [...output.matchAll(/^try (.+): (.+)$/gm)]
      expect(told.length).toBeGreaterThan(0)
      expect(told.filter(([, , how]) => how !== "kept").map(([line]) => line)).toEqual([])
    })
  })
}
