import { requires } from "@berth/testing/requires"
import { it } from "vitest"
import { MISHAPS } from "./mishaps.ts"
import { liveThrough, ROUND_MS } from "./prompts-suite.ts"
import { worldOfFile } from "./world.ts"

/** `npm run test:crash` runs hundreds. */
const COUNT = Number(process.env.BERTH_CRASH_ROUNDS ?? 4)
const SEED = Number(process.env.BERTH_CRASH_SEED ?? 20_261_116)

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "prompts, whatever ends while they run",
  () => {
    const world = worldOfFile()

    it(
      `[R1.9] [R3.2] [R3.4] are neither lost nor run twice, and neither is an event (${COUNT} times, seed ${SEED})`,
      async ({ onTestFailed }) => {
        onTestFailed(() => console.error(world().log().join("\n")))
        await liveThrough(world(), { count: COUNT, seed: SEED, mishaps: MISHAPS })
      },
      COUNT * ROUND_MS,
    )
  },
)
