import { BerthError } from "@berth/protocol/errors"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { Agent } from "./agents/agent.ts"
import { opencodeAgent } from "./agents/opencode/opencode.ts"
import type { AgentParts } from "./agents/parts.ts"
import { shellAgent } from "./agents/shell/shell.ts"

/** The agent that a workspace names. */
export const chooseAgent = (spec: AgentSpec, parts: AgentParts): Agent => {
  switch (spec.kind) {
    case "shell":
      return shellAgent(parts)
    case "opencode":
      return opencodeAgent(parts, spec)
    case "acp":
      return missingAgent(spec.kind)
  }
}

/** Fails at its start, so that the boot says so as it says everything. */
const missingAgent = (name: string): Agent => {
  const missing = async () => {
    throw new BerthError("agent.unsupported", `there is no agent ${name} yet`, {
      details: { agent: name, agents: ["shell", "opencode"] },
    })
  }
  return {
    ...{ name, startsEarly: true, files: [], start: missing, attach: missing, prompt: missing },
    trouble: () => "there is no such agent yet",
  }
}
