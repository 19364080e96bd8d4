import { benchmark } from "../benchmark.ts"
import { BYTES_EACH, FILES, ID_BASE, openLayersFixture } from "../fixtures/layers.ts"
import { newTop } from "../fixtures/new-top.ts"

/** From a frozen stack to a writable top on it, mounted. */
export default benchmark({
  what: "a new top on 500 MB in 7,000 files, mounted",
  unit: "ms",
  bound: { of: "ours", atMost: 20 },
  statistic: "median",
  runs: 15,
  prepare: async (context) => {
    const fixture = await openLayersFixture(context, ID_BASE)
    return { fixture, layer: await fixture.layerOf("small", FILES, BYTES_EACH) }
  },
  ours: ({ fixture, layer }, signal) => newTop(fixture, layer, signal),
})
