import { BerthError } from "@berth/protocol/errors"
import type { LocalFolder } from "./local-folder.ts"
import type { NamedEntry } from "./names.ts"

/** Each level holds a folder open on this side; real trees are far less deep. */
const MAX_DEPTH = 256

/** Entries of one copy. */
const MAX_ENTRIES = 1_000_000

/** Listings that are held at once, one for each level: names and targets, and what an entry costs beside them. */
const MAX_HELD_BYTES = 256 * 1024 * 1024
const ENTRY_BYTES = 256

/** Bytes and files that a copy leaves free on the disk. */
const KEPT_BYTES = 64 * 1024 * 1024
const KEPT_FILES = 1_000

/** Bounds what a sandbox can have one copy do to this machine. */
export class Budget {
  #entries = 0
  #heldBytes = 0
  #pendingBytes = 0

  /** Counts the entries of a folder while they are worked on. */
  async holding(
    depth: number,
    entries: readonly NamedEntry[],
    run: () => Promise<void>,
  ): Promise<void> {
    const bytes = entries.reduce(
      (sum, { name, target }) => sum + ENTRY_BYTES + name.length + (target?.length ?? 0),
      0,
    )
    this.#entries += entries.length
    this.#heldBytes += bytes
    try {
      if (depth > MAX_DEPTH) throw tooLarge("levels", MAX_DEPTH)
      if (this.#entries > MAX_ENTRIES) throw tooLarge("entries", MAX_ENTRIES)
      if (this.#heldBytes > MAX_HELD_BYTES) throw tooLarge("bytes of names", MAX_HELD_BYTES)
      await run()
    } finally {
      this.#heldBytes -= bytes
    }
  }

  /** Runs with that many bytes set apart, if the folder's disk has room for them. */
  async reserving(folder: LocalFolder, bytes: number, run: () => Promise<void>): Promise<void> {
    this.#pendingBytes += bytes
    try {
      const room = await folder.room()
      if (this.#pendingBytes > room.bytes - KEPT_BYTES) throw noRoom({ bytes, free: room.bytes })
      if (room.files < KEPT_FILES) throw noRoom({ freeFiles: room.files })
      await run()
    } finally {
      this.#pendingBytes -= bytes
    }
  }
}

export const tooLarge = (what: string, limit: number): BerthError =>
  new BerthError("copy.too_large", `the sandbox has more ${what} than one copy takes`, {
    details: { limit },
  })

const noRoom = (details: Record<string, number>): BerthError =>
  new BerthError("copy.no_room", "the disk of this machine has no room for the copy", { details })
