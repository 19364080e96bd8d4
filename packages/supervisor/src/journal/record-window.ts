import type { FileHandle } from "node:fs/promises"
import { type Decoded, decodeRecord } from "@berth/protocol/journal-record"

/** Size of one read: many usual records, and little memory. */
const READ_BYTES = 256 * 1024

/** Reads records of a file, a buffer at a time. */
export class RecordWindow {
  readonly #handle: FileHandle
  /** The end of the file, as far as the reader may look. */
  size: number
  #buffer = Buffer.alloc(0)
  #start = 0
  /** The end of the record that was read last. */
  end = 0

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle
    this.size = size
  }

  /** Reads the record at an offset; undefined if no whole one begins there. */
  async recordAt(offset: number): Promise<Buffer | undefined> {
    let found = this.#decode(offset)
    if (found.kind === "short" && offset + found.bytes <= this.size) {
      await this.#fill(offset, Math.max(found.bytes, READ_BYTES))
      found = this.#decode(offset)
      // The first read may have had only the header, which tells the record's length.
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
    // A new buffer each time: payloads that were handed out are views of the one before.
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
