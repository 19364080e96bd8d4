import { requires } from "@berth/testing/requires"
import { describe, it } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { chosenRounds } from "./chosen.ts"
import { ROUNDS, Story } from "./rounds.ts"
import { type World, worldOfFile } from "./world.ts"

const ROUND_MS = 30_000

const crashes = (world: () => World, chosen: typeof ROUNDS) =>
  describe("a server that is killed in the middle of what it does with sandboxes", () => {
    it(
      `[R1.6] [R1.9] loses no file, leaves no link and no top behind and takes nothing away that is used (${chosen.length} times)`,
      async ({ onTestFailed }) => {
        onTestFailed(() => console.error(world().log().join("\n")))
        const story = new Story(world())
        for (const { flow, step } of chosen) await story.round(flow, step)
      },
      chosen.length * ROUND_MS,
    )
  })

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () =>
  crashes(worldOfFile(), chosenRounds("crash points of a server", ROUNDS, 3)),
)

requires("root", "docker", "tini").describe("on Docker", () =>
  crashes(
    worldOfFile(async () => (await useSharedEngine()).choice),
    chosenRounds("crash points of a server, docker", ROUNDS, 2),
  ),
)
