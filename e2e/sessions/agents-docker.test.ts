import { requires } from "@berth/testing/requires"
import { mattering, sampled } from "@berth/testing/sampled"
import { NAMES } from "./agents.ts"
import { describeByName } from "./by-name.ts"
import { describeInterruption } from "./interruption.ts"
import { describeSilence } from "./silence.ts"
import { openDockerStage, useStage } from "./stage.ts"
import { describeTroubles } from "./troubles.ts"
import { describeWork } from "./work.ts"

/** Groups of cases that other tests on Docker cover with less. */
const FURTHER = [describeByName, describeTroubles, describeSilence, describeInterruption]

requires("root", "docker", "tini").describe("real agents in containers of Docker", () => {
  const stage = useStage(openDockerStage)
  const names = sampled("agents, docker", NAMES, 1)
  const more = mattering("further groups of agents' cases, docker", FURTHER, {
    inPart: true,
    matters: () => false,
  })
  for (const describeMore of more) describeMore(stage, names)
  // Comes last: it replaces the sandboxes.
  describeWork(stage, "docker", names)
})
