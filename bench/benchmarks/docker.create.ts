import { benchmark } from "../benchmark.ts"
import { openDockerBackend } from "../fixtures/docker-backend.ts"

/** From nothing to the first output, of one and the same container. */
export default benchmark({
  what: "docker create → first output / the bare Engine API",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.1 },
  statistic: "median",
  runs: 15,
  prepare: (context) => openDockerBackend(context),
  ours: async ({ backend, boot }, signal) => {
    const start = performance.now()
    const sandbox = await boot(signal)
    const took = performance.now() - start
    await backend.remove(sandbox)
    return took
  },
  other: async ({ bootBare, removeBare }, signal) => {
    const start = performance.now()
    const id = await bootBare(signal)
    const took = performance.now() - start
    await removeBare(id, signal)
    return took
  },
})
