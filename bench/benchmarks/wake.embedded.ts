import { benchmark } from "../benchmark.ts"
import { openServed } from "../fixtures/served.ts"
import { SOON_ASLEEP, wakeMs } from "../fixtures/wake.ts"

/** The time that a person waits who comes back to an idle sandbox. */
export default benchmark({
  what: "from paused to a command that has run, embedded",
  unit: "ms",
  bound: { of: "ours", atMost: 30 },
  statistic: "median",
  runs: 15,
  prepare: (context) => openServed(context, SOON_ASLEEP),
  ours: wakeMs,
})
