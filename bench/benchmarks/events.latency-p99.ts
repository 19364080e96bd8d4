import { benchmark } from "../benchmark.ts"
import { latencies } from "../fixtures/event-latency.ts"
import { openSession } from "../fixtures/sessions.ts"

/** Measures how soon an agent's output is seen. */
export default benchmark({
  what: "from an event in the sandbox to a subscriber who has it, p99",
  unit: "ms",
  bound: { of: "ours", atMost: 40 },
  statistic: "p99",
  runs: 7,
  prepare: openSession,
  ours: latencies,
})
