import { benchmark } from "../benchmark.ts"
import { openTalk } from "../fixtures/talk.ts"

/** Measures many agents at once, each with a subscriber. */
export default benchmark({
  what: "durable events through one server: 10 sandboxes, 50 sessions, a subscriber each",
  unit: "per second",
  bound: { of: "ours", atLeast: 5_000 },
  statistic: "median",
  runs: 7,
  prepare: openTalk,
  ours: ({ rate }, signal) => rate(signal),
  note: ({ serverPeakMb }) => `the server's memory: at most ${serverPeakMb()} MB`,
})
