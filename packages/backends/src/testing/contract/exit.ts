import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import { collect } from "./events.ts"
import type { ContractTestbed } from "./testbed.ts"

const MIB = 1024 * 1024

/** The most output that a backend keeps of a sandbox, and an output that is longer. */
const MAX_LOG_BYTES = 8 * MIB
const FLOOD_BYTES = MAX_LOG_BYTES + MIB

/** The exit of a sandbox, and its output until then. */
export const exitCases = (testbed: ContractTestbed, it: AddCase, describe: AddGroup): void => {
  describe("the exit of a sandbox", () => {
    it("has the status of the first process", async () => {
      const { exit, sandbox } = await testbed.run("exit 7")
      expect(exit).toMatchObject({ code: 7, reason: "exited" })
      expect((await testbed.backend.inspect(sandbox))?.exit).toEqual(exit)
    })

    it("tells a signal from a status", async () => {
      const { exit } = await testbed.run("kill -KILL $$")
      expect(exit).toMatchObject({ code: 137, reason: "signalled" })
    })

    it("tells a lack of memory from any other end", async () => {
      const { exit } = await testbed.run(
        `exec perl -e '$x = "x" x (512 * 1024 * 1024); sleep 60'`,
        {
          limits: { memoryBytes: 64 * MIB },
        },
      )
      expect(exit.reason).toBe("out-of-memory")
    })

    it("is reported once by an event, and so is a removal", async () => {
      await using events = collect(testbed.backend)
      const sandbox = await testbed.boot({ command: ["/bin/sh", "-c", "exit 4"] })
      await expect
        .poll(() => events.seen, { timeout: 10_000, interval: 5 })
        .toContainEqual(
          expect.objectContaining({
            kind: "exited",
            sandbox,
            exit: expect.objectContaining({ code: 4 }),
          }),
        )
      await testbed.backend.remove(sandbox)
      await expect.poll(() => events.seen).toContainEqual({ kind: "removed", sandbox })
      const exits = events.seen.filter((event) => event.kind === "exited")
      expect(exits.filter((event) => event.sandbox === sandbox)).toHaveLength(1)
    })

    it("leaves the end of the output to read, within a bound", async () => {
      const { sandbox, output } = await testbed.run(
        `echo first; yes 0123456789 | head -c ${FLOOD_BYTES}; echo last`,
      )
      expect(output.trimEnd().endsWith("last")).toBe(true)
      expect(output.length).toBeLessThan(MAX_LOG_BYTES)
      expect(await testbed.backend.logs(sandbox)).toBe(output)
    })
  })
}
