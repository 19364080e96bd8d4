import type { SandboxId } from "@berth/protocol/ids"
import type { BootSummary } from "@berth/protocol/sandboxes"
import type { FoundLinks, SandboxLink } from "../state/links.ts"
import type { Records, SandboxRecord } from "../state/records.ts"
import { type KeepParts, Kept } from "./kept.ts"

export interface Keepers {
  get(sandbox: SandboxId): Kept | undefined
  /** Connects to a sandbox that has just been made. */
  add(link: SandboxLink, record: SandboxRecord, boot: BootSummary): Kept
  /** Connects to a sandbox that runs already; undefined if its link or record is missing. */
  takeUp(sandbox: SandboxId): Promise<Kept | undefined>
  letGo(sandbox: SandboxId, why: string): Promise<void>
  close(): Promise<void>
}

export interface OpenKeepersParts extends KeepParts {
  readonly links: FoundLinks
  readonly records: Records
}

/** The connections to sandboxes, one each. */
export const openKeepers = (parts: OpenKeepersParts): Keepers => {
  const { links, records, events } = parts
  const all = new Map<SandboxId, Kept>()
  return {
    get: (sandbox) => all.get(sandbox),
    add: (link, record, boot) => {
      const kept = new Kept(parts, { link, record, lastSeen: 0, boot })
      all.set(link.sandbox, kept)
      return kept
    },
    takeUp: async (sandbox) => {
      const there = all.get(sandbox)
      if (there !== undefined) return there
      const [link, record] = await Promise.all([links.find(sandbox), records.read(sandbox)])
      if (link === undefined || record === undefined) return undefined
      const lastSeen = await events.lastSeen(sandbox)
      const kept = new Kept(parts, { link, record, lastSeen, boot: undefined })
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
