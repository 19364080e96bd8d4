import { benchmark } from "../benchmark.ts"
import { BYTES_EACH, FILES, ID_BASE, openLayersFixture } from "../fixtures/layers.ts"
import { newTop } from "../fixtures/new-top.ts"

/**
 * Ten times the bytes in the same number of files must cost no more. Medians of the same measurement differ by a tenth.
 */
export default benchmark({
  what: "a new top on 5 GB, mounted / on 500 MB",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.1 },
  statistic: "median",
  runs: 31,
  deadlineMs: 20 * 60_000,
  prepare: async (context) => {
    const fixture = await openLayersFixture(context, ID_BASE)
    return {
      fixture,
      small: await fixture.layerOf("small", FILES, BYTES_EACH),
      large: await fixture.layerOf("large", FILES, 10 * BYTES_EACH),
    }
  },
  ours: ({ fixture, large }, signal) => newTop(fixture, large, signal),
  other: ({ fixture, small }, signal) => newTop(fixture, small, signal),
})
