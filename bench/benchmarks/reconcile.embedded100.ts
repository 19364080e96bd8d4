import { join } from "node:path"
import { benchmark } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { openReal } from "../fixtures/real.ts"
import { reconcileStale } from "../fixtures/reconcile-stale.ts"
import { timeMs } from "../measure.ts"

const COUNT = 100

/**
 * Stops with grace and removes, with everything that is read, decided and noted for it, compared with killing and
 * removing.
 */
export default benchmark({
  what: "reconcile of 100 booted, stale embedded sandboxes / the runtime's own delete of 100 such, in parallel",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.5 },
  statistic: "median",
  runs: 7,
  deadlineMs: 40 * 60_000,
  prepare: (context) => openReal(context, { name: "embedded" }),
  ours: (real, signal) => reconcileStale(real, COUNT, signal),
  other: async ({ bootPlanned, directory }, signal) => {
    const all = await bootPlanned(COUNT, signal)
    // The runtime kills the sandboxes, so their last events need no reader.
    for (const { leave } of all) await leave()
    const root = join(directory, "runtime")
    const took = await timeMs(() =>
      Promise.all(
        all.map(({ spec: { identity } }) =>
          runCommand("crun", ["--root", root, "delete", "--force", identity.sandbox], signal),
        ),
      ),
    )
    for (const { end } of all) await end()
    return took
  },
})
