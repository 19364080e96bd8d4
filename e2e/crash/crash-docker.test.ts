import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { engineMishaps, shimsOf } from "./engine-mishaps.ts"
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
  })

  // This comes after the suite: an engine that was killed forgets the starts that it had begun.
  it("leaves no process of a container that the engine does not know", async () => {
    await expect
      .poll(async () => shimsOf(engine()).length - (await engine().containers()).length)
      .toBe(0)
  })
})
