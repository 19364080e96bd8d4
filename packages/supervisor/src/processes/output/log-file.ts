import { constants } from "node:fs"
import { type FileHandle, open, rename } from "node:fs/promises"
import type { Clock } from "../clock.ts"

/** Size of each of the two log files of a process: enough to see what led to a crash. */
export const LOG_FILE_BYTES = 1024 * 1024
/**
 * Limit of the bytes that wait for the disk. Beyond it the oldest are dropped, so that no process waits and no memory
 * grows.
 */
const PENDING_BYTES = 512 * 1024
/** Delay before the file is tried again after an error, such as a full disk. */
const RETRY_AFTER_MS = 5_000

/** Flags that follow no link and do not wait for a reader if the path is a pipe. */
const FLAGS =
  constants.O_WRONLY |
  constants.O_APPEND |
  constants.O_CREAT |
  constants.O_NOFOLLOW |
  constants.O_NONBLOCK

export interface LogFileOptions {
  readonly path: string
  readonly maxBytes?: number
  readonly clock: Clock
  /** Called when writing fails, and again only after it has worked in between. */
  readonly onProblem?: (problem: string) => void
}

/**
 * A log of limited size. When it is full it is renamed to `PATH.1`, replacing the one before, and a new one begins.
 * Writing never waits and never throws. The number of bytes that could not be written is noted in the file.
 */
export class LogFile {
  readonly #options: LogFileOptions
  readonly #maxBytes: number
  #file: FileHandle | undefined
  #fileBytes = 0
  #pending: Buffer[] = []
  #pendingBytes = 0
  #leftOutBytes = 0
  #writing: Promise<void> | undefined
  #retryAtMs = -Infinity
  #hasProblem = false

  constructor(options: LogFileOptions) {
    this.#options = options
    this.#maxBytes = options.maxBytes ?? LOG_FILE_BYTES
  }

  write(chunk: Buffer): void {
    this.#pending.push(chunk)
    this.#pendingBytes += chunk.length
    while (this.#pendingBytes > PENDING_BYTES) this.#leaveOut(this.#pending.shift() as Buffer)
    this.#writing ??= this.#writeAll()
  }

  /** Writes the pending bytes, and closes the file. The next write opens it again. */
  async close(): Promise<void> {
    await this.#writing
    const file = this.#file
    this.#file = undefined
    await file?.close().catch(() => {})
  }

  #leaveOut(chunk: Buffer): void {
    this.#pendingBytes -= chunk.length
    this.#leftOutBytes += chunk.length
  }

  async #writeAll(): Promise<void> {
    // Waits a microtask, so that chunks that come together are written together.
    await Promise.resolve()
    while (this.#pending.length > 0 && this.#options.clock.nowMs() >= this.#retryAtMs) {
      const batch = this.#takeBatch()
      try {
        await this.#append(batch)
        this.#hasProblem = false
      } catch (thrown) {
        this.#leftOutBytes += batch.length
        await this.#fail(thrown)
      }
    }
    this.#writing = undefined
  }

  /** Takes all pending bytes, cut to what a file may hold. */
  #takeBatch(): Buffer {
    const all = Buffer.concat(this.#pending)
    this.#pending = []
    this.#pendingBytes = 0
    const tail = all.subarray(Math.max(0, all.length - this.#maxBytes))
    this.#leftOutBytes += all.length - tail.length
    if (this.#leftOutBytes === 0) return tail
    const note = Buffer.from(`\n[${this.#leftOutBytes} bytes are left out here]\n`)
    this.#leftOutBytes = 0
    return Buffer.concat([note, tail])
  }

  async #append(batch: Buffer): Promise<void> {
    this.#file ??= await this.#open()
    if (this.#fileBytes > 0 && this.#fileBytes + batch.length > this.#maxBytes) await this.#rotate()
    await this.#file.appendFile(batch)
    this.#fileBytes += batch.length
  }

  async #rotate(): Promise<void> {
    const { path } = this.#options
    await this.#file?.close()
    this.#file = undefined
    await rename(path, `${path}.1`)
    this.#file = await this.#open()
  }

  async #open(): Promise<FileHandle> {
    const file = await open(this.#options.path, FLAGS, 0o640)
    try {
      const stat = await file.stat()
      if (!stat.isFile()) throw new Error(`${this.#options.path} is not a regular file`)
      this.#fileBytes = stat.size
      return file
    } catch (thrown) {
      await file.close()
      throw thrown
    }
  }

  async #fail(thrown: unknown): Promise<void> {
    this.#retryAtMs = this.#options.clock.nowMs() + RETRY_AFTER_MS
    const file = this.#file
    this.#file = undefined
    await file?.close().catch(() => {})
    if (this.#hasProblem) return
    this.#hasProblem = true
    this.#options.onProblem?.(thrown instanceof Error ? thrown.message : String(thrown))
  }
}
