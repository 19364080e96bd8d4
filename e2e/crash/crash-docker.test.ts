import { requires } from "@berth/testing/requires"
import { engineMishaps } from "./engine-mishaps.ts"
import { addForgottenStart } from "./forgotten-start.ts"
import { MISHAPS } from "./mishaps.ts"
import { crashSuite } from "./suite.ts"
import { dockerWorldOfFile } from "./world.ts"

requires("root", "docker", "tini").describe("on a Docker engine", () => {
  const { world, engine } = dockerWorldOfFile()
  crashSuite({
    backend: "docker",
    world,
    mishaps: { ...MISHAPS, ...engineMishaps(engine) },
    removal: ["remove.container"],
    few: { steps: 1, mishaps: 1 },
    fewKinds: 1,
    further: () => addForgottenStart(world, engine),
  })
})
