import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import type { HealthSample } from "@berth/testing/health-sample"
import { benchmark, CannotRun } from "../benchmark.ts"

const ASKED_MS = 1_500

/** The attack of the test, as a program of its own. */
const PROGRAM = fileURLToPath(new URL("../../e2e/starving/program.ts", import.meta.url))

/**
 * Runs all attacks at once: hostile sandboxes, a prompt that writes without end, and event streams that nobody reads.
 */
export default benchmark({
  what: "GET /v1/health while sandboxes send empty events and 1xx answers, a prompt floods the log, and 300 event streams are not read, p99",
  unit: "ms",
  bound: { of: "ours", atMost: 50 },
  statistic: "p99",
  runs: 7,
  prepare: async ({ onEnd, signal }) => {
    if (process.geteuid?.() !== 0) throw new CannotRun("sandboxes need root")
    const child = spawn(process.execPath, ["--conditions=source", PROGRAM], {
      stdio: ["pipe", "pipe", "inherit"],
    })
    onEnd(async () => {
      const ended = child.exitCode === null ? once(child, "exit") : undefined
      child.stdin.end()
      await ended
    })
    const lines = createInterface({ input: child.stdout })
    await once(lines, "line", { signal })
    return async (): Promise<HealthSample[]> => {
      child.stdin.write(`${ASKED_MS}\n`)
      const [line] = await once(lines, "line", { signal })
      return JSON.parse(line)
    }
  },
  ours: async (ask) => (await ask()).map(({ ms }) => ms),
})
