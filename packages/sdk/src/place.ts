import type { SandboxId } from "@berth/protocol/ids"
import type { Connection } from "./call.ts"

/** The way to a sandbox. */
export interface Place {
  readonly connection: Connection
  readonly sandbox: SandboxId
  /** The path of a call to the sandbox: `at("/commands")`. */
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
