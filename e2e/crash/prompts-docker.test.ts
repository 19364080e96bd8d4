import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, it } from "vitest"
import { startEngine } from "../docker/engine.ts"
import { chosenRounds } from "./chosen.ts"
import { MISHAPS, type Mishap } from "./mishaps.ts"
import { liveThrough, ROUND_MS } from "./prompts-suite.ts"
import { openWorld, type World } from "./world.ts"

/** What may happen to an engine: the next one ends the sandboxes that it finds, or goes on with them. */
const OF_ENGINE = {
  "the engine is killed": { liveRestore: false },
  "the engine is killed, which its sandboxes outlive": { liveRestore: true },
} as const
/** An engine restarts in seconds: a tenth of the rounds takes as long. */
const CHOSEN = chosenRounds(
  "mishaps during prompts, docker",
  [...Object.keys(MISHAPS), ...Object.keys(OF_ENGINE)],
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
      const ofEngine = Object.entries(OF_ENGINE).map(([name, how]): [string, Mishap] => [
        name,
        () => engine.restart(how),
      ])
      const mishaps = { ...MISHAPS, ...Object.fromEntries(ofEngine) }
      await liveThrough(world, { chosen: CHOSEN, mishaps })
    },
    CHOSEN.length * 2 * ROUND_MS,
  )
})
