/** Initial size of the buffer, as most commands write little. */
const FIRST_BYTES = 4 * 1024

/** The last bytes of a stream, addressed by their offset in it. The buffer grows with what is kept. */
export class OutputBuffer {
  /** The byte at offset n is stored at n modulo the buffer's length. */
  #ring = Buffer.alloc(0)
  #from = 0
  #to = 0
  #limitBytes: number
  #isEnded = false
  readonly #waiting = new Set<() => void>()

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** The offset of the first byte that is kept. */
  get from(): number {
    return this.#from
  }

  /** The offset of the next byte to come. */
  get to(): number {
    return this.#to
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  write(chunk: Buffer): void {
    const kept = this.#to - this.#from
    const wanted = Math.min(kept + chunk.length, this.#limitBytes)
    const size = this.#ring.length
    if (wanted > size)
      this.#resize(Math.min(Math.max(wanted, 2 * size, FIRST_BYTES), this.#limitBytes))
    const tail = chunk.subarray(Math.max(0, chunk.length - this.#ring.length))
    const at = (this.#to + chunk.length - tail.length) % this.#ring.length
    const copied = tail.copy(this.#ring, at)
    tail.copy(this.#ring, 0, copied)
    this.#to += chunk.length
    this.#from = Math.max(this.#from, this.#to - this.#ring.length)
    this.#wake()
  }

  /** Returns bytes from a kept offset on, perhaps fewer than there are. Valid until the next write. */
  read(from: number, maxBytes: number): Buffer {
    const at = from % this.#ring.length
    return this.#ring.subarray(
      at,
      Math.min(at + Math.min(this.#to - from, maxBytes), this.#ring.length),
    )
  }

  /** Sets the limit of what is kept from now on. */
  limit(bytes: number): void {
    this.#limitBytes = bytes
    if (this.#ring.length > bytes) this.#resize(bytes)
  }

  /** Called when nothing more comes. */
  end(): void {
    this.#isEnded = true
    this.#wake()
  }

  /** Resolves with the next write, at the end, and when the signal fires. */
  more(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener("abort", done)
        this.#waiting.delete(done)
        resolve()
      }
      if (signal.aborted || this.#isEnded) return resolve()
      signal.addEventListener("abort", done)
      this.#waiting.add(done)
    })
  }

  #resize(bytes: number): void {
    const ring = Buffer.alloc(bytes)
    const from = Math.max(this.#from, this.#to - bytes)
    for (let at = from; at < this.#to; ) {
      const piece = this.read(at, bytes - (at % bytes))
      piece.copy(ring, at % bytes)
      at += piece.length
    }
    this.#ring = ring
    this.#from = from
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake()
  }
}
