import { requires } from "@berth/testing/requires"
import { it } from "vitest"
import { seeded } from "../bridge/seeded.ts"
import { ROUNDS, Story } from "./rounds.ts"
import { worldOfFile } from "./world.ts"

/** `npm run test:crash` runs hundreds. */
const COUNT = Number(process.env.BERTH_CRASH_ROUNDS ?? 3)
const SEED = Number(process.env.BERTH_CRASH_SEED ?? 20_261_116)
const ROUND_MS = 30_000

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a server that is killed in the middle of what it does with sandboxes",
  () => {
    const world = worldOfFile()

    it(
      `[R1.6] [R1.9] loses no file, leaves nothing behind and takes nothing away that is used (${COUNT} times, seed ${SEED})`,
      async ({ onTestFailed }) => {
        onTestFailed(() => console.error(world().log().join("\n")))
        const random = seeded(SEED)
        const story = new Story(world())
        for (let count = 0; count < COUNT; count += 1) {
          const chosen = ROUNDS[Math.floor(random() * ROUNDS.length)]
          if (chosen !== undefined) await story.round(chosen.flow, chosen.step)
        }
      },
      COUNT * ROUND_MS,
    )
  },
)
