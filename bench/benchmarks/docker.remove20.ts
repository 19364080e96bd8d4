import { benchmark } from "../benchmark.ts"
import { openDockerBackend } from "../fixtures/docker-backend.ts"
import { timeMs } from "../measure.ts"

const COUNT = 20

/** Removes twenty running sandboxes: all at once through Berth, one after another through the API. */
export default benchmark({
  what: "twenty docker sandboxes removed at once / one after another by the Engine API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.7 },
  statistic: "median",
  runs: 7,
  prepare: (context) => openDockerBackend(context),
  ours: async ({ backend, boot }, signal) => {
    const all = await Promise.all(Array.from({ length: COUNT }, () => boot(signal)))
    return timeMs(() => Promise.all(all.map((sandbox) => backend.remove(sandbox, { signal }))))
  },
  other: async ({ bootBare, removeBare }, signal) => {
    const all = await Promise.all(Array.from({ length: COUNT }, () => bootBare(signal)))
    return timeMs(async () => {
      for (const id of all) await removeBare(id, signal)
    })
  },
})
