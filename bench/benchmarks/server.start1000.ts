import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { benchmark, CannotRun } from "../benchmark.ts"
import { makeKnown } from "../fixtures/known.ts"
import { timeMs } from "../measure.ts"

const BERTH = fileURLToPath(new URL("../../bin/berth", import.meta.url))
const COUNT = 1_000

/** What is to be done about them comes after the first answer. */
export default benchmark({
  what: "from `berth serve` to its first answer, with 1,000 known sandboxes",
  unit: "ms",
  bound: { of: "ours", atMost: 500 },
  statistic: "median",
  runs: 9,
  prepare: async (context) => {
    if (process.geteuid?.() !== 0) throw new CannotRun("sandboxes need root")
    return { dataDir: await makeKnown(COUNT, context) }
  },
  ours: async ({ dataDir }, signal) => {
    const args = ["serve", "--port", "0", "--json", "--log-level", "error", "--data-dir", dataDir]
    const { PATH } = process.env
    const stdio = ["ignore", "pipe", "inherit"] as const
    const child = spawn(BERTH, args, { env: { PATH, HOME: dataDir }, stdio: [...stdio] })
    const ended = once(child, "exit")
    const answered = timeMs(async () => {
      const [line] = await once(createInterface({ input: child.stdout }), "line", { signal })
      const { url } = JSON.parse(line) as { url: string }
      const { status } = await fetch(`${url}/v1/health`, { signal })
      if (status !== 200) throw new Error(`the server answered ${status}`)
    })
    try {
      return await answered
    } finally {
      child.kill("SIGKILL")
      await ended
    }
  },
})
