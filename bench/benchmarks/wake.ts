import { setTimeout as pause } from "node:timers/promises"
import { benchmark } from "../benchmark.ts"
import { openServed } from "../fixtures/served.ts"
import { timeMs } from "../measure.ts"

const LOOK_EVERY_MS = 50

/** What somebody waits for who comes back to a sandbox that was left alone. */
export default benchmark({
  what: "from paused to a command that has run, embedded",
  unit: "ms",
  bound: { of: "ours", atMost: 30 },
  statistic: "median",
  runs: 15,
  prepare: (context) => openServed(context, ["--idle-pause", "1s"]),
  ours: async ({ sandbox }, signal) => {
    while ((await sandbox.get({ signal })).phase !== "paused")
      await pause(LOOK_EVERY_MS, undefined, { signal })
    return await timeMs(async () => {
      const { status } = await sandbox.commands.run(["true"], { signal })
      if (status !== 0) throw new Error(`the command ended with ${status}`)
    })
  },
})
