import { requires } from "@berth/testing/requires"
import { describeByName } from "./by-name.ts"
import { describeInterruption } from "./interruption.ts"
import { openEmbeddedStage, useStage } from "./stage.ts"
import { describeTroubles } from "./troubles.ts"
import { describeWork } from "./work.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "real agents in embedded sandboxes",
  () => {
    const stage = useStage(openEmbeddedStage)
    describeByName(stage)
    describeTroubles(stage)
    describeInterruption(stage)
    // In the end their sandboxes are replaced.
    describeWork(stage, "embedded", 3, 3)
  },
)
