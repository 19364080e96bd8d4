import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { beforeAll, describe, expect, it } from "vitest"
import {
  AT_THE_END,
  EXHAUSTION_LIMITS,
  FILLING_ATTEMPTS,
  FORK_BOMB,
  MEMORY_BOMB,
  MEMORY_BY_FILES,
  OUTPUT_FLOOD,
} from "../escapes/exhaustion.ts"
import { running } from "../inside.ts"
import { connectionFlood } from "./connection-flood.ts"
import { countedResources } from "./counted.ts"
import { expectEnd, itFails } from "./expect.ts"
import { outliving } from "./outliving.ts"
import type { IsolationTestbed } from "./testbed.ts"

const MIB = 1024 * 1024
/** Larger than the output that any backend keeps, and far smaller than the flood. */
const MOST_LOG_BYTES = 2 * MIB

/** A sandbox that uses up all that it can. */
export const exhaustion = (testbed: IsolationTestbed): void => {
  describe("a sandbox that wants everything", () => {
    beforeAll(async () => {
      await testbed.attempt("filling", FILLING_ATTEMPTS, { limits: EXHAUSTION_LIMITS })
    })

    itFails(testbed, "filling", FILLING_ATTEMPTS)

    processesAndMemory(testbed)
    outputFlood(testbed)
    countedResources(testbed)
    if (testbed.isWhole) connectionFlood(testbed)
    outliving(testbed)
  })
}

const processesAndMemory = (testbed: IsolationTestbed): void => {
  it(`cannot ${FORK_BOMB.name}`, async () => {
    const command = running(FORK_BOMB.script)
    const bomb = await testbed.sandboxes.boot(command, {
      limits: EXHAUSTION_LIMITS,
    })
    try {
      await expectEnd(testbed.sandboxes, bomb, FORK_BOMB)
      const script = command.at(-1) ?? ""
      const processes = await testbed.harness.processesWith(script)
      expect(processes).toBeGreaterThan(0)
      expect(processes).toBeLessThanOrEqual(EXHAUSTION_LIMITS.pids)
      const { output } = await testbed.sandboxes.run(["/bin/sh", "-c", "echo life goes on"])
      expect(output).toBe("life goes on\n")
    } finally {
      await testbed.harness.backend.remove(bomb)
    }
  })

  for (const { name, script } of [MEMORY_BOMB, MEMORY_BY_FILES]) {
    it(`cannot ${name}`, async () => {
      const limits = { ...EXHAUSTION_LIMITS, tmpBytes: 1024 * MIB }
      const { exit } = await testbed.sandboxes.run(running(script), { limits })
      expect(exit).toMatchObject({ code: 137, reason: "out-of-memory" })
    })
  }

  it("has higher out-of-memory scores than a process of the host", async () => {
    const own = Number(await readFile("/proc/self/oom_score_adj", "utf8"))
    const read = ["/bin/sh", "-c", "cat /proc/1/oom_score_adj /proc/self/oom_score_adj"]
    const scores = (await testbed.sandboxes.run(read)).output.trim().split("\n").map(Number)
    expect(Math.min(...scores)).toBeGreaterThan(own)
  })
}

const outputFlood = (testbed: IsolationTestbed): void => {
  it(`cannot ${OUTPUT_FLOOD.name}`, async () => {
    const sandbox = await testbed.sandboxes.boot(running(OUTPUT_FLOOD.script))
    try {
      expect(await testbed.sandboxes.ended(sandbox)).toMatchObject({ code: 0 })
      const kept = await testbed.harness.backend.logs(sandbox)
      expect(kept).toContain(AT_THE_END)
      expect(kept.length).toBeLessThan(MOST_LOG_BYTES)
      expect(await largestFile(testbed.harness.directory)).toBeLessThan(MOST_LOG_BYTES)
    } finally {
      await testbed.harness.backend.remove(sandbox)
    }
  })
}

const largestFile = async (directory: string): Promise<number> => {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size)
  return Math.max(0, ...(await Promise.all(sizes)))
}
