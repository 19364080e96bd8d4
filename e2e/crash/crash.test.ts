import { requires } from "@berth/testing/requires"
import { it } from "vitest"
import { chosenRounds } from "./chosen.ts"
import { ROUNDS, Story } from "./rounds.ts"
import { worldOfFile } from "./world.ts"

const CHOSEN = chosenRounds("crash points of a server", ROUNDS, 3)
const ROUND_MS = 30_000

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a server that is killed in the middle of what it does with sandboxes",
  () => {
    const world = worldOfFile()

    it(
      `[R1.6] [R1.9] loses no file, leaves no link and no top behind and takes nothing away that is used (${CHOSEN.length} times)`,
      async ({ onTestFailed }) => {
        onTestFailed(() => console.error(world().log().join("\n")))
        const story = new Story(world())
        for (const { flow, step } of CHOSEN) await story.round(flow, step)
      },
      CHOSEN.length * ROUND_MS,
    )
  },
)
