import { BLOCK_BYTES, refused } from "./header.ts"

/** Takes bytes from a stream in the pieces that are asked for, without holding more than comes at once. */
export class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  /** Undefined at the end. */
  async block(): Promise<Buffer | undefined> {
    if (!(await this.#fill())) return undefined
    return await this.exactly(BLOCK_BYTES)
  }

  async exactly(count: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for await (const part of this.upTo(count)) parts.push(part)
    return Buffer.concat(parts)
  }

  async *upTo(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (!(await this.#fill())) throw refused("it ends too soon")
      const part = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(part.length)
      left -= part.length
      yield part
    }
  }

  async skip(count: number): Promise<void> {
    for await (const _ of this.upTo(count));
  }

  /** What tar writes after the end: it fills its last record. */
  async drain(): Promise<void> {
    do this.#rest = Buffer.alloc(0)
    while (await this.#fill())
  }

  /** Lets go of the stream, wherever it is. */
  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  async #fill(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#chunks.next()
      if (done) return false
      this.#rest = value
    }
    return true
  }
}
