import { benchmark } from "../benchmark.ts"
import { startBootingEngine } from "../fixtures/booting-engine.ts"
import { askEngine } from "../fixtures/engine-api.ts"
import { openReal } from "../fixtures/real.ts"
import { reconcileStale } from "../fixtures/reconcile-stale.ts"
import { timeMs } from "../measure.ts"

const COUNT = 20
/** The stop grace of sandboxes. */
const STOP_GRACE_S = 10

/** Stops with grace and removes all stale sandboxes, compared with doing so one after another. */
export default benchmark({
  what: "reconcile of 20 booted, stale docker sandboxes / stop and remove of 20 such, one after another, by the Engine API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.7 },
  statistic: "median",
  runs: 7,
  deadlineMs: 30 * 60_000,
  prepare: async (context) => {
    const { engine, image } = await startBootingEngine(context)
    const { socket: socketPath } = engine
    return {
      real: await openReal(context, { name: "docker", engine: { socketPath }, image }),
      call: (method: string, path: string, signal: AbortSignal) =>
        askEngine({ socketPath, method, path, signal }),
    }
  },
  ours: ({ real }, signal) => reconcileStale(real, COUNT, signal),
  other: async ({ real: { bootPlanned }, call }, signal) => {
    const all = await bootPlanned(COUNT, signal)
    const took = await timeMs(async () => {
      for (const { spec } of all) {
        const name = `berth-${spec.identity.sandbox}`
        await call("POST", `/containers/${name}/stop?t=${STOP_GRACE_S}`, signal)
        await call("DELETE", `/containers/${name}?force=1&v=1`, signal)
      }
    })
    for (const { end } of all) await end()
    return took
  },
})
