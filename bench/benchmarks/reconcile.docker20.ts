import { benchmark } from "../benchmark.ts"
import { openDockerBackend } from "../fixtures/docker-backend.ts"
import { openStale } from "../fixtures/stale.ts"
import { timeMs } from "../measure.ts"

const COUNT = 20

/** Stopping with grace and removing: all that are stale, against one after another. */
export default benchmark({
  what: "reconcile of 20 stale docker sandboxes / one after another by the Engine API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.7 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => {
    const docker = await openDockerBackend(context)
    return { docker, stale: await openStale(context, docker.backend) }
  },
  ours: async ({ docker, stale }, signal) => {
    const all = await Promise.all(Array.from({ length: COUNT }, () => docker.boot(signal)))
    await stale.know(all)
    return await timeMs(async () => {
      const { sandboxes } = await stale.sandboxes.reconcile({ dryRun: false })
      const removed = sandboxes.filter(({ outcome }) => outcome === "removed")
      if (removed.length !== COUNT) throw new Error(`${removed.length} of ${COUNT} were removed`)
    })
  },
  other: async ({ docker: { bootBare, stopBare, removeBare } }, signal) => {
    const all = await Promise.all(Array.from({ length: COUNT }, () => bootBare(signal)))
    return await timeMs(async () => {
      for (const id of all) {
        await stopBare(id, signal)
        await removeBare(id, signal)
      }
    })
  },
})
