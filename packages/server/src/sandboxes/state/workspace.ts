import type { ConfigHash } from "@berth/protocol/sandbox"
import type { WorkspaceSpec } from "@berth/protocol/workspace"

export interface Workspace {
  readonly spec: WorkspaceSpec
  /** The files have been through a whole boot: the next one leaves them as they are. */
  readonly isBooted: boolean
  /** The failed boots of one config in a row. */
  readonly failed:
    | { readonly boots: number; readonly hash: ConfigHash; readonly why: string }
    | undefined
}
