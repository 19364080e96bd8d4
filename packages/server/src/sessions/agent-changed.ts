import { BerthError } from "@berth/protocol/errors"
import type { SessionId, Slug } from "@berth/protocol/ids"
import type { AgentSpec } from "@berth/protocol/workspace"

/** A conversation cannot be gone on with by another agent than it was begun with. */
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
