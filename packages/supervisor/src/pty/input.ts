import { writeSync } from "node:fs"

/** Interval of retries while the program in a terminal does not read, as there is no event when it does again. */
const RETRY_MS = 20

/** Small inputs are joined in blocks of this size, as each separate buffer costs far more memory than its bytes. */
const BLOCK_BYTES = 16 * 1024

export interface Pty {
  /** The pty's descriptor. Must be non-blocking. */
  readonly fd: number
  /** Whether the descriptor is still the pty's. Once closed, its number may be reused. */
  isOpen(): boolean
}

/**
 * Writes to a pty without waiting for the program behind it. The library's own `write` repeats a refused write until it
 * succeeds, and blocks every other terminal meanwhile.
 */
export class Input {
  readonly #pty: Pty
  #waiting: Buffer[] = []
  /** The rest of the block that holds the last waiting input. */
  #room = Buffer.alloc(0)
  #waitingBytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(pty: Pty) {
    this.#pty = pty
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  write(bytes: Buffer): void {
    if (bytes.length === 0) return
    if (this.#timer === undefined) this.#waiting.push(bytes)
    else this.#gather(bytes)
    this.#waitingBytes += bytes.length
    if (this.#timer === undefined) this.#flush()
  }

  /** Drops the waiting input. */
  close(): void {
    clearTimeout(this.#timer)
    this.#waiting = []
    this.#waitingBytes = 0
    this.#room = Buffer.alloc(0)
  }

  #gather(bytes: Buffer): void {
    if (bytes.length > this.#room.length) {
      const block = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, bytes.length))
      this.#waiting.push(block.subarray(0, 0))
      this.#room = block
    }
    bytes.copy(this.#room)
    const last = this.#waiting.length - 1
    const { buffer, byteOffset, length } = this.#waiting[last] as Buffer
    this.#waiting[last] = Buffer.from(buffer, byteOffset, length + bytes.length)
    this.#room = this.#room.subarray(bytes.length)
  }

  #flush(): void {
    this.#timer = undefined
    this.#room = Buffer.alloc(0)
    if (!this.#pty.isOpen()) return void this.close()
    try {
      for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
        const written = writeSync(this.#pty.fd, first)
        this.#waitingBytes -= written
        if (written === first.length) this.#waiting.shift()
        else this.#waiting[0] = first.subarray(written)
      }
    } catch (thrown) {
      // Any other failure means that the shell has ended, which its exit reports.
      if ((thrown as NodeJS.ErrnoException).code !== "EAGAIN") return void this.close()
      this.#timer = setTimeout(() => this.#flush(), RETRY_MS)
    }
  }
}
