import { benchmark } from "../benchmark.ts"
import { type BareApi, openBareApi } from "../fixtures/bare-api.ts"
import { startBootingEngine } from "../fixtures/booting-engine.ts"
import { openReal, type RealSandboxes } from "../fixtures/real.ts"

interface Fixture {
  readonly real: RealSandboxes
  readonly bare: BareApi
}

/**
 * From nothing in the engine to a supervisor that accepts prompts. Both sides have the same volumes and the same
 * container.
 */
export default benchmark({
  what: "docker create and start → ready for prompts / the bare Engine API",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.1 },
  statistic: "median",
  runs: 15,
  prepare: async (context): Promise<Fixture> => {
    const { engine, image } = await startBootingEngine(context)
    const { socket: socketPath } = engine
    const choice = { name: "docker", engine: { socketPath }, image } as const
    return { real: await openReal(context, choice), bare: openBareApi(socketPath) }
  },
  ours: async ({ real: { backend, plan } }, signal) => {
    const { spec, ready, end } = await plan()
    const start = performance.now()
    await backend.create(spec, { signal })
    await backend.start(spec.identity.sandbox, { signal })
    await ready(signal)
    const took = performance.now() - start
    await end()
    return took
  },
  other: async ({ real: { backend, plan }, bare }, signal) => {
    const { spec, ready, end } = await plan()
    await backend.create(spec, { signal })
    const model = await bare.takeOver(`berth-${spec.identity.sandbox}`, signal)
    const start = performance.now()
    await model.create(signal)
    await ready(signal)
    const took = performance.now() - start
    await model.remove(signal)
    await end()
    return took
  },
})
