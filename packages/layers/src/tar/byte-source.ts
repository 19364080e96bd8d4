import { refuse } from "./refuse.ts"

/** Reads a stream in pieces of the reader's choosing, never holding more than one chunk and one piece. */
export class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  async exactly(bytes: number): Promise<Buffer> {
    if (this.#rest.length >= bytes) return this.#take(bytes)
    const pieces: Buffer[] = []
    for await (const piece of this.window(bytes)) pieces.push(piece)
    return pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)
  }

  async skip(bytes: number): Promise<void> {
    for await (const _ of this.window(bytes)) {
      // These bytes are not wanted.
    }
  }

  /** Iterates over the next bytes as they come. A second iteration goes on where the first one stopped. */
  window(bytes: number): AsyncIterable<Buffer> {
    let left = bytes
    const next = async (): Promise<IteratorResult<Buffer>> => {
      if (left === 0) return { done: true, value: undefined }
      if (this.#rest.length === 0 && !(await this.#refill())) refuse("it is cut short", "")
      const piece = this.#take(left)
      left -= piece.length
      return { done: false, value: piece }
    }
    return { [Symbol.asyncIterator]: () => ({ next }) }
  }

  /** Reads to the end, so that everything after the last entry (its checksum, in zstd) is checked too. */
  async drain(most: number): Promise<void> {
    let bytes = this.#rest.length
    while (bytes <= most) {
      if (!(await this.#refill())) return
      // These bytes are the padding of the last record.
      bytes += this.#rest.length
    }
    refuse("it goes on after its end", "")
  }

  /** Takes as many of the next bytes as there are. */
  #take(most: number): Buffer {
    const piece = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(piece.length)
    return piece
  }

  async #refill(): Promise<boolean> {
    const { done, value } = await this.#chunks.next()
    this.#rest = done ? Buffer.alloc(0) : value
    return !done
  }
}
