import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { NAMES } from "./agents.ts"
import { openDockerStage, useStage } from "./stage.ts"
import { describeWork } from "./work.ts"

requires("root", "docker", "tini").describe("real agents in containers of Docker", () => {
  describeWork(
    useStage(() => openDockerStage(sampled(NAMES, 1))),
    1,
    1,
  )
})
