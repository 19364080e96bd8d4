import type { AgentSpec } from "@berth/protocol/workspace"
import { acpAgent } from "./agents/acp/acp.ts"
import { anyAgent } from "./agents/acp/known/any.ts"
import { claudeAgent } from "./agents/acp/known/claude.ts"
import { codexAgent } from "./agents/acp/known/codex.ts"
import type { Agent } from "./agents/agent.ts"
import { discreet } from "./agents/discreet.ts"
import { AgentKeys, type AskForKeys } from "./agents/keys.ts"
import { opencodeAgent } from "./agents/opencode/opencode.ts"
import type { AgentParts } from "./agents/parts.ts"
import { shellAgent } from "./agents/shell/shell.ts"
import { withShell } from "./agents/with-shell.ts"

export interface AgentSurroundings extends Omit<AgentParts, "keys"> {
  readonly askForKeys: AskForKeys
}

/** Makes the agent that a workspace names, with the shell beside it. */
export const chooseAgent = (
  spec: AgentSpec,
  { askForKeys, ...parts }: AgentSurroundings,
): Agent => {
  const keys = new AgentKeys(spec.keys, askForKeys)
  const chosen = discreet(make(spec, { ...parts, keys }), keys)
  if (spec.kind === "shell") return chosen
  // The keys are the agent's: a shell command gets none of them, and they are removed from its output.
  const none = new AgentKeys([], askForKeys)
  return withShell(chosen, discreet(shellAgent({ ...parts, keys: none }), keys))
}

const make = (spec: AgentSpec, parts: AgentParts): Agent => {
  switch (spec.kind) {
    case "shell":
      return shellAgent(parts)
    case "opencode":
      return opencodeAgent(parts, spec)
    case "claude":
      return acpAgent(parts, claudeAgent(spec, parts.places.toolbox))
    case "codex":
      return acpAgent(parts, codexAgent(spec, parts.places.toolbox))
    case "acp":
      return acpAgent(parts, anyAgent(spec))
  }
}
