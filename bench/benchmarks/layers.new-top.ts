import { newId } from "@berth/protocol/ids"
import { benchmark } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { BYTES_EACH, FILES, type LayersFixture, openLayersFixture } from "../fixtures/layers.ts"
import { median } from "../statistics.ts"

const ID_BASE = 1_900_000_000
/** Ten times as much in as many files. */
const LARGE_BYTES_EACH = 10 * BYTES_EACH
const LARGE_RUNS = 7

/** From a frozen stack to a writable top on it, mounted, whatever the stack holds. */
export default benchmark({
  what: "a new top on 500 MB in 7,000 files, mounted",
  unit: "ms",
  bound: { of: "ours", atMost: 20 },
  statistic: "median",
  runs: 15,
  prepare: async (context) => {
    const fixture = await openLayersFixture(context, ID_BASE)
    const layer = await fixture.layerOf("small", FILES, BYTES_EACH)
    const large = await fixture.layerOf("large", FILES, LARGE_BYTES_EACH)
    const onLarge: number[] = []
    for (let run = 0; run < LARGE_RUNS; run += 1) {
      onLarge.push(await newTop(fixture, large, context.signal))
    }
    return { fixture, layer, onLargeMs: median(onLarge) }
  },
  ours: ({ fixture, layer }, signal) => newTop(fixture, layer, signal),
  note: ({ onLargeMs }) => `on 5 GB: ${onLargeMs.toFixed(1)} ms`,
})

let made = 0

const newTop = async (
  { layers, stack, root }: LayersFixture,
  layer: Parameters<LayersFixture["stack"]>[1],
  signal: AbortSignal,
): Promise<number> => {
  made += 1
  const key = await stack(`fork-${made}`, layer)
  const sandbox = newId.sandbox()
  const start = performance.now()
  await layers.ensureTop(key)
  const { top, mount } = await layers.claimTop(key, sandbox)
  const options = mount.options.join(",")
  const script = `cd "${root}" && exec mount -t overlay -o "${options}" overlay /mnt`
  await runCommand("unshare", ["--mount", "sh", "-c", script], signal)
  const took = performance.now() - start
  await layers.releaseTop(top, sandbox)
  await layers.remove(key)
  return took
}
