import { type FileHandle, open } from "node:fs/promises"
import { toJournalError } from "./fault.ts"
import { RecordWindow } from "./record-window.ts"

/** A file of records that grows at its end. */
export class RecordFile {
  readonly path: string
  readonly #handle: FileHandle
  #bytes = 0
  /** Whether a failed write may have left bytes after the last whole record. */
  #torn = false

  private constructor(path: string, handle: FileHandle) {
    this.path = path
    this.#handle = handle
  }

  /** Creates a new file. Fails if it exists. */
  static async create(path: string): Promise<RecordFile> {
    try {
      return new RecordFile(path, await open(path, "wx+", 0o600))
    } catch (thrown) {
      throw toJournalError(thrown, path)
    }
  }

  /**
   * Opens a file, and passes each whole record to `onRecord`. The `tornBytes` after the last whole record are ignored,
   * and cut off before the next write.
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

  /** The size of all whole records. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Appends all records, or nothing: after a failure the file ends where it ended before. Written bytes survive the
   * death of every process; `durable` ones, and all before them, also a power loss.
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
        // The next append cuts first.
      })
      throw toJournalError(thrown, this.path)
    }
  }

  /** Cuts off the bytes after the last whole record. */
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
