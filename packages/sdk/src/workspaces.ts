import { WorkspaceSpec } from "@berth/protocol/workspace"
import { type CallOptions, type Connection, get } from "./call.ts"

export interface Workspaces {
  /** As it was described last. */
  get(slug: string, options?: CallOptions): Promise<WorkspaceSpec>
}

export const workspacesOf = (connection: Connection): Workspaces => ({
  get: (slug, options) =>
    get(connection, `/v1/workspaces/${encodeURIComponent(slug)}`, WorkspaceSpec, options),
})
