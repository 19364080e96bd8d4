import { benchmark } from "../benchmark.ts"
import { BYTES_EACH } from "../fixtures/layers.ts"
import { openChanged } from "../fixtures/snapshot.ts"

/**
 * A snapshot's cost must grow with the changes only: the same changes on ten times the bytes must cost no more. A tenth
 * is noise.
 */
export default benchmark({
  what: "live snapshot with 5 MB changed on 5 GB / on 500 MB",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.1 },
  statistic: "median",
  runs: 21,
  deadlineMs: 20 * 60_000,
  prepare: async (context) => ({
    large: await openChanged(context, 10 * BYTES_EACH),
    small: await openChanged(context, BYTES_EACH),
  }),
  ours: ({ large }, signal) => large(signal),
  other: ({ small }, signal) => small(signal),
})
