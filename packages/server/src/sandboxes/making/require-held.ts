import { BerthError } from "@berth/protocol/errors"
import { type AgentSpec, unheldReason } from "@berth/protocol/workspace"

/** Refuses an agent that cannot be held to the workspace's permissions. */
export const requireHeld = (agent: AgentSpec): void => {
  const reason = unheldReason(agent)
  if (reason !== undefined)
    throw new BerthError("agent.unheld", reason, { details: { agent: agent.kind } })
}
