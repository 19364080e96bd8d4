import { benchmark } from "../benchmark.ts"
import { openDocker } from "../fixtures/docker.ts"
import { openEmbeddedFixture, TALKER } from "../fixtures/embedded.ts"

const COUNT = 20

/** Starts twenty sandboxes at once, and waits until the last has answered. */
export default benchmark({
  what: "twenty embedded sandboxes at once / Docker's API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.4 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => ({
    docker: await openDocker(context),
    embedded: await openEmbeddedFixture(context),
  }),
  ours: async ({ embedded: { backend, boot } }, signal) => {
    const start = performance.now()
    const all = await Promise.all(Array.from({ length: COUNT }, () => boot(TALKER, signal)))
    const took = performance.now() - start
    await Promise.all(all.map((sandbox) => backend.remove(sandbox)))
    return took
  },
  other: async ({ docker }, signal) => {
    const start = performance.now()
    const all = await Promise.all(Array.from({ length: COUNT }, () => docker.boot(TALKER, signal)))
    const took = performance.now() - start
    await Promise.all(all.map((id) => docker.remove(id, signal)))
    return took
  },
})
