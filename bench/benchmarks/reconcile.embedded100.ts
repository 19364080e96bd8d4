import { join } from "node:path"
import { benchmark } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { openReal } from "../fixtures/real.ts"
import { reconcileStale } from "../fixtures/reconcile-stale.ts"
import { timeMs } from "../measure.ts"

const COUNT = 100

/** Stopping with grace and removing, with everything that is read, decided and noted for it, against killing and removing. */
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
    // The runtime kills: nobody has to hear their last words.
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
