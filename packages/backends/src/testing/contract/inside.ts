import { WorkspaceLimits } from "@berth/protocol/limits"
import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import type { ContractTestbed } from "./testbed.ts"

const MIB = 1024 * 1024

/** The inside of a sandbox, as a program finds it. */
export const insideCases = (testbed: ContractTestbed, it: AddCase, describe: AddGroup): void => {
  describe("the inside of a sandbox", () => {
    it("runs the command with its environment, and with nothing of the server's", async () => {
      const { output } = await testbed.run("env", { environment: { GIVEN: "a b=c\n$d" } })
      expect(output).toContain("GIVEN=a b=c\n$d")
      const names = [...output.matchAll(/^([A-Z_]+)=/gm)].map((match) => match[1])
      const usual = [
        "GIVEN",
        "HOME",
        "HOSTNAME",
        "LANG",
        "PATH",
        "PWD",
        "SHLVL",
        "TERM",
        "USER",
        "_",
      ]
      expect(names.filter((variable) => !usual.includes(variable ?? ""))).toEqual([])
    })

    it("has the limits for open files, /tmp and processes that the backend reports as held", async () => {
      const { limits } = await testbed.backend.describe()
      expect(Object.keys(limits).sort()).toEqual(Object.keys(WorkspaceLimits.shape).sort())
      const asked = { memoryBytes: 256 * MIB, pids: 64, openFiles: 777, tmpBytes: 2 * MIB }
      const script = [
        "ulimit -n",
        "head -c 4000000 /dev/zero > /tmp/big 2>/dev/null; stat -c %s /tmp/big",
        "perl -e '$| = 1; my $n = 0; while (defined(my $p = fork())) { if (!$p) { sleep 5; exit } last if ++$n > 200 } print \"forked $n\\n\"; kill 9, -1'",
      ]
      const { output } = await testbed.run(script.join("\n"), { limits: asked })
      if (limits.openFiles.held) expect(output).toMatch(/^777$/m)
      if (limits.tmpBytes.held) expect(output).toMatch(/^2097152$/m)
      if (limits.pids.held) expect(Number(/forked (\d+)/.exec(output)?.[1])).toBeLessThan(64)
    })

    it("comes with a status that lists exactly the limits that are not held", async () => {
      const { limits } = await testbed.backend.describe()
      const observed = await testbed.backend.create(testbed.specOf())
      for (const [limit, { held }] of Object.entries(limits)) {
        const unheld = observed.unheldLimits.some((each) => each.limit === limit)
        expect(unheld).toBe(!held)
      }
    })

    it("has a /workspace, /home and /tmp of its own", async () => {
      const script =
        "ls -A /workspace /tmp; for d in /workspace /home /tmp; do echo x > $d/mine && echo wrote $d; done"
      for (const _ of [1, 2]) {
        const { output } = await testbed.run(script)
        expect(output).not.toContain("mine")
        expect(output).toContain("wrote /workspace\nwrote /home\nwrote /tmp")
      }
    })

    it("has no network but its own loopback under the policy none", async () => {
      const { output } = await testbed.run(
        "cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2",
      )
      expect(output.trim()).toBe("lo")
    })
  })
}
