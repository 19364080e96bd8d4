const FIRST_BYTES = 4 * 1024

/**
 * Collects bytes in one block of memory. A list of chunks would cost many times their bytes, as the sender decides how
 * small they are.
 */
export class GatheredBytes {
  #block = Buffer.alloc(0)
  #length = 0

  get length(): number {
    return this.#length
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length
    if (length > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(FIRST_BYTES, 2 * this.#block.length, length))
      this.#block.copy(larger, 0, 0, this.#length)
      this.#block = larger
    }
    piece.copy(this.#block, this.#length)
    this.#length = length
  }

  /** Returns the collected bytes as text, and empties the block. */
  take(): string {
    const text = this.#block.toString("utf8", 0, this.#length)
    this.#block = Buffer.alloc(0)
    this.#length = 0
    return text
  }
}
