import { requires } from "@berth/testing/requires"
import { openDockerStage, useStage } from "./stage.ts"
import { describeWork } from "./work.ts"

requires("root", "docker", "tini").describe("real agents in containers of Docker", () => {
  describeWork(useStage(openDockerStage), "docker", 1, 1)
})
