import { BerthError } from "@berth/protocol/errors"
import type { SessionId, Slug } from "@berth/protocol/ids"
import type { AgentSpec } from "@berth/protocol/workspace"

/** The error of a session whose workspace has another agent now: that one cannot continue the conversation. */
export const agentChanged = ({
  session,
  workspace,
  was,
  is,
}: {
  readonly session: SessionId
  readonly workspace: Slug
  readonly was: AgentSpec["kind"]
  readonly is: AgentSpec["kind"]
}): BerthError =>
  new BerthError("agent.changed", `the session is with ${was}, and ${workspace} has ${is} now`, {
    details: { session, workspace },
  })
