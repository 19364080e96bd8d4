import { requires } from "@berth/testing/requires"
import { it } from "vitest"
import { chosenRounds } from "./chosen.ts"
import { MISHAPS } from "./mishaps.ts"
import { liveThrough, ROUND_MS } from "./prompts-suite.ts"
import { worldOfFile } from "./world.ts"

const CHOSEN = chosenRounds("mishaps during prompts, embedded", Object.keys(MISHAPS), 4)

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "prompts, whatever ends while they run",
  () => {
    const world = worldOfFile()

    it(
      `[R1.9] [R3.2] [R3.4] are neither lost nor run twice, and neither is an event (${CHOSEN.length} times)`,
      async ({ onTestFailed }) => {
        onTestFailed(() => console.error(world().log().join("\n")))
        await liveThrough(world(), { chosen: CHOSEN, mishaps: MISHAPS })
      },
      CHOSEN.length * ROUND_MS,
    )
  },
)
