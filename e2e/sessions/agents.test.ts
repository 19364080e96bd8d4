import { sampled } from "@berth/testing/sampled"
import { BACKENDS, describeOn } from "../backends.ts"
import { NAMES } from "./agents.ts"
import { describeByName } from "./by-name.ts"
import { describeInterruption } from "./interruption.ts"
import { describeSilence } from "./silence.ts"
import { openDockerStage, openEmbeddedStage, useStage } from "./stage.ts"
import { describeTroubles } from "./troubles.ts"
import { describeWork } from "./work.ts"

const OPEN = { embedded: openEmbeddedStage, docker: openDockerStage }

// A partial run takes one agent on one backend for all groups, which share its sandbox.
describeOn(
  sampled("backends of real agents", BACKENDS, 1),
  "real agents in sandboxes",
  (backend) => {
    const stage = useStage(OPEN[backend])
    const names = sampled(`agents, ${backend}`, NAMES, 1)
    describeByName(stage)
    describeTroubles(stage, names)
    describeSilence(stage, names)
    describeInterruption(stage)
    // Comes last: it replaces the sandboxes.
    describeWork(stage, backend, names)
  },
)
