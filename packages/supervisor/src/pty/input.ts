import { writeSync } from "node:fs"

/** While the program in a terminal does not read: nobody tells when it does again. */
const RETRY_MS = 20

export interface Pty {
  /** It must not block. */
  readonly fd: number
  /** Whether the number is still the pty's: once it is closed, it may be another's. */
  isOpen(): boolean
}

/**
 * Writes to a pty, without ever waiting for the program behind it. The library's own `write` repeats a write
 * that is refused until it is taken, and holds up every other terminal meanwhile.
 */
export class Input {
  readonly #pty: Pty
  #waiting: Buffer[] = []
  #waitingBytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(pty: Pty) {
    this.#pty = pty
  }

  get waitingBytes(): number {
    return this.#waitingBytes
  }

  write(bytes: Buffer): void {
    this.#waiting.push(bytes)
    this.#waitingBytes += bytes.length
    if (this.#timer === undefined) this.#flush()
  }

  /** Forgets what waits. */
  close(): void {
    clearTimeout(this.#timer)
    this.#waiting = []
    this.#waitingBytes = 0
  }

  #flush(): void {
    this.#timer = undefined
    if (!this.#pty.isOpen()) return void this.close()
    try {
      for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
        const written = writeSync(this.#pty.fd, first)
        this.#waitingBytes -= written
        if (written === first.length) this.#waiting.shift()
        else this.#waiting[0] = first.subarray(written)
      }
    } catch (thrown) {
      // Any other failure means that the shell has ended, of which its exit tells.
      if ((thrown as NodeJS.ErrnoException).code !== "EAGAIN") return void this.close()
      this.#timer = setTimeout(() => this.#flush(), RETRY_MS)
    }
  }
}
