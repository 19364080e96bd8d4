import { startFaultyEngine } from "@berth/backends/docker/testing/faulty-engine"
import type { CacheName } from "@berth/protocol/workspace"
import { benchmark } from "../benchmark.ts"
import { openDockerBackend } from "../fixtures/docker-backend.ts"

const COUNT = 20
const CACHES: readonly CacheName[] = ["npm", "pip"]

/** Counts superfluous engine calls when twenty sandboxes start at once and their network and caches exist already. */
export default benchmark({
  what: "engine calls for the network, and beyond one a cache, of twenty sandboxes at once",
  unit: "count",
  bound: { of: "ours", atMost: 0 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => {
    let asked: readonly string[] = []
    const docker = await openDockerBackend(context, {
      networks: true,
      through: async (socket) => {
        const counting = await startFaultyEngine(socket)
        context.onEnd(() => counting.close())
        asked = counting.asked
        return counting.address
      },
    })
    await docker.backend.ensureNetwork()
    await docker.backend.ensureCaches(docker.workspace, CACHES)
    const calls = { network: 0, caches: 0 }
    const count = (from: number, what: RegExp) =>
      asked.slice(from).filter((line) => what.test(line))
    return { ...docker, calls, askedSoFar: () => asked.length, count }
  },
  ours: async ({ backend, workspace, specOf, calls, askedSoFar, count }, signal) => {
    const before = askedSoFar()
    const mounts = CACHES.map((cache) => ({ kind: "cache" as const, cache, target: `/c/${cache}` }))
    const make = async () => {
      await Promise.all([
        backend.ensureNetwork({ signal }),
        backend.ensureCaches(workspace, CACHES, { signal }),
      ])
      const spec = specOf({ mounts, network: { kind: "open" } })
      await backend.create(spec, { signal })
      return spec.identity.sandbox
    }
    const all = await Promise.all(Array.from({ length: COUNT }, make))
    calls.network = count(before, / \S*\/networks/).length
    calls.caches = count(before, / \S*\/volumes/).length
    await Promise.all(all.map((sandbox) => backend.remove(sandbox)))
    return calls.network + Math.max(0, calls.caches - COUNT * CACHES.length)
  },
  note: ({ calls }) =>
    `${calls.network} calls for the network, ${calls.caches} for ${CACHES.length} caches`,
})
