import type { FileHandle } from "node:fs/promises"
import { type Decoded, decodeRecord } from "@berth/protocol/journal-record"

/** Read at once: many of the usual records, and little to hold in memory. */
const READ_BYTES = 256 * 1024

/** Reads records of a file piece by piece. */
export class RecordWindow {
  readonly #handle: FileHandle
  /** Where the file ends, as far as the reader may look. */
  size: number
  #buffer = Buffer.alloc(0)
  #start = 0
  /** Where the record that was read last ends. */
  end = 0

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle
    this.size = size
  }

  /** The record at that place of the file; undefined where no whole one begins. */
  async recordAt(offset: number): Promise<Buffer | undefined> {
    let found = this.#decode(offset)
    if (found.kind === "short" && offset + found.bytes <= this.size) {
      await this.#fill(offset, Math.max(found.bytes, READ_BYTES))
      found = this.#decode(offset)
      // Only its header may have been there to say how long it is.
      if (found.kind === "short" && offset + found.bytes <= this.size) {
        await this.#fill(offset, found.bytes)
        found = this.#decode(offset)
      }
    }
    if (found.kind !== "record") return undefined
    this.end = this.#start + found.end
    return found.payload
  }

  #decode(offset: number): Decoded {
    const inside = offset - this.#start
    if (inside < 0 || inside > this.#buffer.length) return { kind: "short", bytes: 1 }
    return decodeRecord(this.#buffer, inside)
  }

  async #fill(offset: number, bytes: number): Promise<void> {
    const wanted = Math.min(bytes, this.size - offset)
    // Of its own: the payloads that were handed out are views of the one before.
    const buffer = Buffer.allocUnsafe(wanted)
    let filled = 0
    while (filled < wanted) {
      const { bytesRead } = await this.#handle.read(
        buffer,
        filled,
        wanted - filled,
        offset + filled,
      )
      if (bytesRead === 0) break
      filled += bytesRead
    }
    this.#buffer = buffer.subarray(0, filled)
    this.#start = offset
  }
}
