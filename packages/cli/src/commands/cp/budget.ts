import { BerthError } from "@berth/protocol/errors"
import { LEFT_FREE_BYTES, noRoom } from "../../disk-room.ts"
import type { LocalFolder } from "./local-folder.ts"

/** The most levels: each holds a folder open on this side; real trees are far less deep. */
const MAX_DEPTH = 256

/** The most entries of one copy. */
const MAX_ENTRIES = 1_000_000

/**
 * The most bytes of names and targets that are held, of the folders on the way to the current entry; each costs more
 * than itself.
 */
const MAX_HELD_BYTES = 256 * 1024 * 1024
const NAME_COST_BYTES = 256

/** Inodes that a copy leaves free on the disk. */
const LEFT_FREE_FILES = 1_000

/** Files and bytes that are put into one folder between two checks of the disk: a small part of what is left free. */
const UNSEEN_FILES = 100
const UNSEEN_BYTES = 4 * 1024 * 1024

/** Bounds the effects of a sandbox on this machine during one copy. */
export class Budget {
  #entries = 0
  #heldBytes = 0
  #looked: LocalFolder | undefined
  #unseenFiles = 0
  #unseenBytes = 0

  /** Counts an entry of which so many bytes are held, and returns the amount to give back later. */
  hold(nameBytes: number, depth: number): number {
    const bytes = NAME_COST_BYTES + 2 * nameBytes
    this.count()
    this.#heldBytes += bytes
    if (depth > MAX_DEPTH) throw tooLarge("levels", MAX_DEPTH)
    if (this.#heldBytes > MAX_HELD_BYTES) throw tooLarge("bytes of names", MAX_HELD_BYTES)
    return bytes
  }

  giveBack(bytes: number): void {
    this.#heldBytes -= bytes
  }

  /** Counts an entry. */
  count(): void {
    this.#entries += 1
    if (this.#entries > MAX_ENTRIES) throw tooLarge("entries", MAX_ENTRIES)
  }

  /**
   * Throws unless the folder's disk has room for a file of that size. The disk is checked after some files or bytes.
   */
  requireRoom(folder: LocalFolder, bytes: number): void {
    const isKnown = this.#looked === folder && this.#unseenFiles > 0 && bytes <= this.#unseenBytes
    if (!isKnown) {
      const room = folder.room()
      if (bytes > room.bytes - LEFT_FREE_BYTES) throw noRoom({ bytes, free: room.bytes })
      if (room.files < LEFT_FREE_FILES) throw noRoom({ freeFiles: room.files })
      this.#looked = folder
      this.#unseenFiles = UNSEEN_FILES
      this.#unseenBytes = UNSEEN_BYTES
    }
    this.#unseenFiles -= 1
    this.#unseenBytes -= bytes
  }
}

export const tooLarge = (what: string, limit: number): BerthError =>
  new BerthError("copy.too_large", `the sandbox has more ${what} than one copy takes`, {
    details: { limit },
  })
