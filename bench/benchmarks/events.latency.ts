import { benchmark } from "../benchmark.ts"
import { latencies } from "../fixtures/event-latency.ts"
import { openSession } from "../fixtures/sessions.ts"

/** Measures how soon an agent's output is seen. */
export default benchmark({
  what: "from an event in the sandbox to a subscriber who has it, median",
  unit: "ms",
  bound: { of: "ours", atMost: 10 },
  statistic: "median",
  runs: 7,
  prepare: openSession,
  ours: latencies,
})
