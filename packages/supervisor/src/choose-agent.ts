import { BerthError } from "@berth/protocol/errors"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { Agent } from "./agent.ts"
import type { AgentParts } from "./parts.ts"
import { shellAgent } from "./shell/shell.ts"

/** The agent that a workspace names. */
export const chooseAgent = (spec: AgentSpec, parts: AgentParts): Agent => {
  switch (spec.kind) {
    case "shell":
      return shellAgent(parts)
    case "opencode":
    case "acp":
      throw new BerthError("agent.unsupported", `there is no agent ${spec.kind}`, {
        details: { agent: spec.kind, agents: ["shell"] },
      })
  }
}
