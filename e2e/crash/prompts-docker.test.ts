import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, it } from "vitest"
import { startEngine } from "../docker/engine.ts"
import { MISHAPS } from "./mishaps.ts"
import { liveThrough, ROUND_MS } from "./prompts-suite.ts"
import { openWorld, type World } from "./world.ts"

/** An engine restarts in seconds: a tenth of the rounds takes as long. */
const COUNT = Math.ceil(Number(process.env.BERTH_CRASH_ROUNDS ?? 20) / 10)
const SEED = Number(process.env.BERTH_CRASH_SEED ?? 20_261_117)
const STAGE_MS = 180_000

requires("root", "docker", "tini").describe("prompts on a Docker engine, whatever ends", () => {
  let engine: Awaited<ReturnType<typeof startEngine>>
  let world: World
  beforeAll(async () => {
    engine = await startEngine()
    const { socket: socketPath, image } = engine
    const backend = { name: "docker", engine: { socketPath }, image } as const
    world = await openWorld(AbortSignal.timeout(STAGE_MS), backend)
  }, STAGE_MS)
  afterAll(async () => {
    try {
      await world?.close()
    } finally {
      await engine?.stop()
    }
  }, STAGE_MS)

  it(
    `[R1.9] [R3.4] are neither lost nor run twice, and neither is an event (${COUNT} times, seed ${SEED})`,
    async ({ onTestFailed }) => {
      onTestFailed(() => console.error(world.log().join("\n")))
      const mishaps = { ...MISHAPS, "the engine is killed": () => engine.restart() }
      await liveThrough(world, { count: COUNT, seed: SEED, mishaps })
    },
    COUNT * 2 * ROUND_MS,
  )
})
