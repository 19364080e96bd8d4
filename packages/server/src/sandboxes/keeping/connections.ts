import type { SandboxId } from "@berth/protocol/ids"
import type { BootSummary } from "@berth/protocol/sandboxes"
import type { Records, SandboxRecord } from "../state/records.ts"
import type { FoundSharedDirectories, SharedDirectory } from "../state/shared-directories.ts"
import { type ConnectionParts, SandboxConnection } from "./connection.ts"

export interface Connections {
  get(sandbox: SandboxId): SandboxConnection | undefined
  /** Connects to a sandbox that has just been made. */
  add(shared: SharedDirectory, record: SandboxRecord, boot: BootSummary): SandboxConnection
  /** Connects to a sandbox that runs already; undefined if its shared directory or record is missing. */
  reconnect(sandbox: SandboxId): Promise<SandboxConnection | undefined>
  drop(sandbox: SandboxId, why: string): Promise<void>
  close(): Promise<void>
}

export interface ConnectionsParts extends ConnectionParts {
  readonly sharedDirectories: FoundSharedDirectories
  readonly records: Records
}

/** The connections to sandboxes, one each. */
export const openConnections = (parts: ConnectionsParts): Connections => {
  const { sharedDirectories, records, events } = parts
  const all = new Map<SandboxId, SandboxConnection>()
  return {
    get: (sandbox) => all.get(sandbox),
    add: (shared, record, boot) => {
      const connection = new SandboxConnection(parts, { shared, record, lastSeen: 0, boot })
      all.set(shared.sandbox, connection)
      return connection
    },
    reconnect: async (sandbox) => {
      const there = all.get(sandbox)
      if (there !== undefined) return there
      const [shared, record] = await Promise.all([
        sharedDirectories.find(sandbox),
        records.read(sandbox),
      ])
      if (shared === undefined || record === undefined) return undefined
      const lastSeen = await events.lastSeen(sandbox)
      const connection = new SandboxConnection(parts, { shared, record, lastSeen, boot: undefined })
      all.set(sandbox, connection)
      return connection
    },
    drop: async (sandbox, why) => {
      const connection = all.get(sandbox)
      all.delete(sandbox)
      await connection?.close(why)
    },
    close: async () => {
      await Promise.all(
        [...all.values()].map((connection) => connection.close("is left to itself")),
      )
    },
  }
}
