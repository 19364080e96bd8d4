import { benchmark } from "../benchmark.ts"
import { openServed } from "../fixtures/served.ts"
import { SOON_ASLEEP, wakeMs } from "../fixtures/wake.ts"

/** What somebody waits for who comes back to a sandbox that was left alone. */
export default benchmark({
  what: "from paused to a command that has run, embedded",
  unit: "ms",
  bound: { of: "ours", atMost: 30 },
  statistic: "median",
  runs: 15,
  prepare: (context) => openServed(context, SOON_ASLEEP),
  ours: wakeMs,
})
