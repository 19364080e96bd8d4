import { requires } from "@berth/testing/requires"
import { MISHAPS } from "./mishaps.ts"
import { crashSuite } from "./suite.ts"
import { dockerWorldOfFile } from "./world.ts"

requires("root", "docker", "tini").describe("on a Docker engine", () => {
  const { world, engine } = dockerWorldOfFile()
  crashSuite({
    backend: "docker",
    world,
    mishaps: {
      ...MISHAPS,
      "the engine is killed": async () => {
        await engine().restart()
        return true
      },
    },
    few: { steps: 1, mishaps: 2 },
  })
})
