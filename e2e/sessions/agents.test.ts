import { requires } from "@berth/testing/requires"
import { describeAgents } from "./describe-agents.ts"
import { openEmbeddedStage } from "./stage.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "real agents in embedded sandboxes",
  () => describeAgents(openEmbeddedStage),
)
