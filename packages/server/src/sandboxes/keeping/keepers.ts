import type { SandboxId } from "@berth/protocol/ids"
import type { BootSummary } from "@berth/protocol/sandboxes"
import type { Records, SandboxRecord } from "../state/records.ts"
import type { FoundSharedDirectories, SharedDirectory } from "../state/shared-directories.ts"
import { type KeepParts, Kept } from "./kept.ts"

export interface Keepers {
  get(sandbox: SandboxId): Kept | undefined
  /** Connects to a sandbox that has just been made. */
  add(shared: SharedDirectory, record: SandboxRecord, boot: BootSummary): Kept
  /** Connects to a sandbox that runs already; undefined if its shared directory or record is missing. */
  takeUp(sandbox: SandboxId): Promise<Kept | undefined>
  letGo(sandbox: SandboxId, why: string): Promise<void>
  close(): Promise<void>
}

export interface OpenKeepersParts extends KeepParts {
  readonly sharedDirectories: FoundSharedDirectories
  readonly records: Records
}

/** The connections to sandboxes, one each. */
export const openKeepers = (parts: OpenKeepersParts): Keepers => {
  const { sharedDirectories, records, events } = parts
  const all = new Map<SandboxId, Kept>()
  return {
    get: (sandbox) => all.get(sandbox),
    add: (shared, record, boot) => {
      const kept = new Kept(parts, { shared, record, lastSeen: 0, boot })
      all.set(shared.sandbox, kept)
      return kept
    },
    takeUp: async (sandbox) => {
      const there = all.get(sandbox)
      if (there !== undefined) return there
      const [shared, record] = await Promise.all([
        sharedDirectories.find(sandbox),
        records.read(sandbox),
      ])
      if (shared === undefined || record === undefined) return undefined
      const lastSeen = await events.lastSeen(sandbox)
      const kept = new Kept(parts, { shared, record, lastSeen, boot: undefined })
      all.set(sandbox, kept)
      return kept
    },
    letGo: async (sandbox, why) => {
      const kept = all.get(sandbox)
      all.delete(sandbox)
      await kept?.close(why)
    },
    close: async () => {
      await Promise.all([...all.values()].map((kept) => kept.close("is left to itself")))
    },
  }
}
