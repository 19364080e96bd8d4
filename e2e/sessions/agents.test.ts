import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { NAMES } from "./agents.ts"
import { describeByName } from "./by-name.ts"
import { describeInterruption } from "./interruption.ts"
import { describeSilence } from "./silence.ts"
import { openEmbeddedStage, useStage } from "./stage.ts"
import { describeTroubles } from "./troubles.ts"
import { describeWork } from "./work.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "real agents in embedded sandboxes",
  () => {
    const stage = useStage(openEmbeddedStage)
    // One agent for all groups, which share its sandbox.
    const names = sampled("agents, embedded", NAMES, 1)
    describeByName(stage)
    describeTroubles(stage, names)
    describeSilence(stage, names)
    describeInterruption(stage)
    // Comes last: it replaces the sandboxes.
    describeWork(stage, "embedded", names)
  },
)
