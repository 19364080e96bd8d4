import { BerthError } from "@berth/protocol/errors"
import type { CreateSession } from "@berth/protocol/sessions"
import { AgentSpec, type WorkspaceSpec } from "@berth/protocol/workspace"
import type { Keys } from "../keys/keys.ts"
import type { Sandboxes } from "../sandboxes/sandboxes.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Rows, SessionWithAsks } from "./rows.ts"

export interface CreateParts {
  readonly rows: Pick<Rows, "create">
  readonly sandboxes: Pick<Sandboxes, "workspaces">
  readonly keys: Pick<Keys, "read">
  readonly clock: Pick<Clock, "now">
}

/** Creates a session, and saves its workspace where the request describes one. A refused session changes nothing. */
export const openCreate =
  ({ rows, sandboxes, keys, clock }: CreateParts) =>
  async (
    { workspace, replace, onInterrupt, agent: own }: CreateSession,
    signal: AbortSignal,
  ): Promise<SessionWithAsks> => {
    const { slug, agent: wanted } = await specOf(sandboxes, workspace)
    const agent = own === undefined ? wanted : AgentSpec.parse(own)
    if (onInterrupt === "continue" && agent.kind === "shell")
      throw new BerthError("input.invalid", "the agent shell has no conversation to go on with", {
        details: { path: "onInterrupt", allowed: "wait" },
      })
    await keys.read(wanted.keys)
    // The workspace is saved last, so that a refused session changes nothing.
    const isPrompted = agent.kind === wanted.kind
    if (typeof workspace !== "string")
      await sandboxes.workspaces.save(workspace, { replace, isPrompted }, signal)
    return await rows.create({ workspace: slug, agent, onInterrupt, atMs: clock.now() })
  }

const specOf = async (
  sandboxes: Pick<Sandboxes, "workspaces">,
  workspace: CreateSession["workspace"],
): Promise<Pick<WorkspaceSpec, "slug" | "agent">> =>
  typeof workspace === "string" ? await sandboxes.workspaces.get(workspace) : workspace
