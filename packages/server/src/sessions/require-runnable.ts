import type { Keys } from "../keys/keys.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import { agentChanged } from "./agent-changed.ts"
import type { Presence } from "./presence.ts"
import type { StoredSession } from "./rows.ts"

export interface RequireRunnableParts {
  readonly sandboxes: Pick<Sandboxes, "workspaces">
  readonly keys: Pick<Keys, "read">
}

/** Refuses a prompt for a session that could not run it, where that is known when the prompt is sent. */
export const openRequireRunnable =
  ({ sandboxes, keys }: RequireRunnableParts, presence: Pick<Presence, "of">) =>
  async (session: StoredSession): Promise<void> => {
    const { id, workspace, agent: before, state } = session
    // A closed session is refused where the prompt is accepted; its workspace may be gone as well.
    if (state === "closed") return
    const { agent: wanted } = await sandboxes.workspaces.get(workspace)
    const isOther = wanted.kind !== before.kind
    // A session that keeps its sandbox goes on there, with the agent that it began with.
    if (isOther && before.kind !== "shell" && (await presence.of(id)) === undefined)
      throw agentChanged({ session: id, workspace, was: before.kind, is: wanted.kind })
    const agent = isOther ? before : wanted
    await keys.read(agent.keys)
  }
