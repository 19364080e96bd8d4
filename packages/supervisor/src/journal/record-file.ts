import { type FileHandle, open } from "node:fs/promises"
import { toJournalError } from "./fault.ts"
import { RecordWindow } from "./record-window.ts"

/** A file of records that grows at its end. */
export class RecordFile {
  readonly path: string
  readonly #handle: FileHandle
  #bytes = 0
  /** Whether a failed write may have left something behind the last whole record. */
  #torn = false

  private constructor(path: string, handle: FileHandle) {
    this.path = path
    this.#handle = handle
  }

  /** A new file. One that is there already is an error. */
  static async create(path: string): Promise<RecordFile> {
    try {
      return new RecordFile(path, await open(path, "wx+", 0o600))
    } catch (thrown) {
      throw toJournalError(thrown, path)
    }
  }

  /**
   * The file with its whole records, each handed to `onRecord`. What stands behind the last whole one is
   * not part of the file any more: `tornBytes` long, and cut off before the next write.
   */
  static async read(
    path: string,
    onRecord: (payload: Buffer) => void = () => {},
  ): Promise<{ file: RecordFile; tornBytes: number }> {
    try {
      const handle = await open(path, "r+")
      const file = new RecordFile(path, handle)
      try {
        const { size } = await handle.stat()
        await file.#scan(size, onRecord)
        file.#torn = size > file.#bytes
        return { file, tornBytes: size - file.#bytes }
      } catch (thrown) {
        await handle.close()
        throw thrown
      }
    } catch (thrown) {
      throw toJournalError(thrown, path)
    }
  }

  /** All of its whole records together. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Appends whole records, or nothing: after a failure the file ends where it ended before. Written bytes
   * survive the death of every process; those that are `durable`, and all before them, a power loss too.
   */
  async append(records: readonly Buffer[], { durable }: { durable: boolean }): Promise<void> {
    try {
      await this.cut()
      this.#torn = true
      const bytes = Buffer.concat(records)
      await this.#write(bytes)
      if (durable) await this.#handle.datasync()
      this.#bytes += bytes.length
      this.#torn = false
    } catch (thrown) {
      await this.cut().catch(() => {
        // The next append begins with it.
      })
      throw toJournalError(thrown, this.path)
    }
  }

  /** Cuts off what stands behind the last whole record. */
  async cut(): Promise<void> {
    if (!this.#torn) return
    try {
      await this.#handle.truncate(this.#bytes)
      this.#torn = false
    } catch (thrown) {
      throw toJournalError(thrown, this.path)
    }
  }

  async sync(): Promise<void> {
    try {
      await this.#handle.datasync()
    } catch (thrown) {
      throw toJournalError(thrown, this.path)
    }
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  async #write(bytes: Buffer): Promise<void> {
    for (let written = 0; written < bytes.length; ) {
      const rest = bytes.length - written
      const done = await this.#handle.write(bytes, written, rest, this.#bytes + written)
      written += done.bytesWritten
    }
  }

  async #scan(size: number, onRecord: (payload: Buffer) => void): Promise<void> {
    const window = new RecordWindow(this.#handle, size)
    for (;;) {
      const found = await window.recordAt(this.#bytes)
      if (found === undefined) return
      onRecord(found)
      this.#bytes = window.end
    }
  }
}
