import { requires } from "@berth/testing/requires"
import { describeAgents } from "./describe-agents.ts"
import { openDockerStage } from "./stage.ts"

requires("root", "docker", "tini").describe("real agents in containers of Docker", () =>
  describeAgents(openDockerStage),
)
