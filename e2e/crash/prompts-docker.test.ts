import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, it } from "vitest"
import { startEngine } from "../docker/engine.ts"
import { chosenRounds } from "./chosen.ts"
import { MISHAPS } from "./mishaps.ts"
import { liveThrough, ROUND_MS } from "./prompts-suite.ts"
import { openWorld, type World } from "./world.ts"

const ENGINE_KILLED = "the engine is killed"
/** An engine restarts in seconds: a tenth of the rounds takes as long. */
const CHOSEN = chosenRounds(
  "mishaps during prompts, docker",
  [...Object.keys(MISHAPS), ENGINE_KILLED],
  2,
  { share: 0.1 },
)
const STAGE_MS = 180_000

requires("root", "docker", "tini").describe("prompts on a Docker engine, whatever ends", () => {
  let engine: Awaited<ReturnType<typeof startEngine>>
  let world: World
  beforeAll(async () => {
    engine = await startEngine()
    world = await openWorld(AbortSignal.timeout(STAGE_MS), engine.choice)
  }, STAGE_MS)
  afterAll(async () => {
    try {
      await world?.close()
    } finally {
      await engine?.stop()
    }
  }, STAGE_MS)

  it(
    `[R1.9] [R3.4] are neither lost nor run twice, and neither is an event (${CHOSEN.length} times)`,
    async ({ onTestFailed }) => {
      onTestFailed(() => console.error(world.log().join("\n")))
      const mishaps = { ...MISHAPS, [ENGINE_KILLED]: () => engine.restart() }
      await liveThrough(world, { chosen: CHOSEN, mishaps })
    },
    CHOSEN.length * 2 * ROUND_MS,
  )
})
