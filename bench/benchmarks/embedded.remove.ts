import { benchmark } from "../benchmark.ts"
import { openDocker } from "../fixtures/docker.ts"
import { openEmbeddedFixture, TALKER } from "../fixtures/embedded.ts"
import { timeMs } from "../measure.ts"

const GRACE_MS = 10_000

/** Stops with grace, then removes. */
export default benchmark({
  what: "embedded stop and remove / Docker's API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.5 },
  statistic: "median",
  runs: 11,
  prepare: async (context) => ({
    docker: await openDocker(context),
    embedded: await openEmbeddedFixture(context),
  }),
  ours: async ({ embedded: { backend, boot } }, signal) => {
    const sandbox = await boot(TALKER, signal)
    return timeMs(async () => {
      await backend.stop(sandbox, { graceMs: GRACE_MS }, { signal })
      await backend.remove(sandbox, { signal })
    })
  },
  other: async ({ docker }, signal) => {
    const id = await docker.boot(TALKER, signal)
    return timeMs(async () => {
      await docker.stop(id, signal)
      await docker.remove(id, signal)
    })
  },
})
