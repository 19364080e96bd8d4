import { randomUUID } from "node:crypto"
import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import { pidsWith, ranNs } from "../processes-with.ts"
import type { ContractTestbed } from "./testbed.ts"

/** Pausing a sandbox, and resuming it. */
export const pauseCases = (testbed: ContractTestbed, it: AddCase, describe: AddGroup): void => {
  describe("pause", () => {
    it("halts the processes of a sandbox, and resume lets them continue", async () => {
      const mark = randomUUID()
      const script = "trap 'exit 0' TERM; while :; do echo tick; sleep 0.02; done"
      const sandbox = await testbed.boot({ command: ["/bin/sh", "-c", script, mark] })
      await testbed.said(sandbox, "tick")
      await testbed.backend.pause(sandbox)
      expect(await testbed.state(sandbox)).toBe("paused")
      const pids = await pidsWith(mark)
      expect(pids).not.toEqual([])
      const ranBefore = await ranNs(pids)
      const before = await testbed.backend.logs(sandbox)
      // A process that still ran would use processor time and write within this many turns.
      for (let turn = 0; turn < 20; turn += 1) await testbed.backend.inspect(sandbox)
      expect(await testbed.backend.logs(sandbox)).toBe(before)
      expect(await ranNs(pids)).toBe(ranBefore)
      await testbed.backend.resume(sandbox)
      expect(await testbed.state(sandbox)).toBe("running")
      await expect.poll(() => testbed.backend.logs(sandbox), { timeout: 10_000 }).not.toBe(before)
    })

    it("is undone by a stop, which stays graceful", async () => {
      const sandbox = await testbed.boot()
      await testbed.said(sandbox, "up")
      await testbed.backend.pause(sandbox)
      expect(await testbed.stop(sandbox)).toMatchObject({ code: 0, reason: "exited" })
    })

    it("is idempotent, and so is resume", async () => {
      const sandbox = await testbed.boot()
      await testbed.backend.resume(sandbox)
      await testbed.backend.pause(sandbox)
      await testbed.backend.pause(sandbox)
      expect(await testbed.state(sandbox)).toBe("paused")
      await testbed.backend.resume(sandbox)
      await testbed.backend.resume(sandbox)
      expect(await testbed.state(sandbox)).toBe("running")
    })
  })
}
