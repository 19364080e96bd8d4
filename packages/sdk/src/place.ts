import type { SandboxId } from "@berth/protocol/ids"
import type { Connection } from "./call.ts"

/** Where a sandbox is reached. */
export interface Place {
  readonly connection: Connection
  readonly sandbox: SandboxId
  /** The path of what it serves: `at("/commands")`. */
  readonly at: (path: string, query?: URLSearchParams) => string
}

export const placeOf = (connection: Connection, sandbox: SandboxId): Place => ({
  connection,
  sandbox,
  at: (path, query) => {
    const written = query?.toString() ?? ""
    return `/v1/sandboxes/${sandbox}${path}${written === "" ? "" : `?${written}`}`
  },
})
