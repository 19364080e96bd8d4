import { BLOCK_BYTES, TarProblem } from "./tar-header.ts"

/** Tar fills its last record, of 10 KiB by default. */
const MAX_PADDING_BYTES = 1024 * 1024

/** Reads a stream in pieces of the wanted sizes, without holding more than comes at once. */
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
    if (this.#rest.length >= count) return this.#take(count)
    const parts: Buffer[] = []
    for await (const part of this.upTo(count)) parts.push(part)
    return Buffer.concat(parts)
  }

  async *upTo(count: number): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (!(await this.#fill())) throw new TarProblem("it ends too soon")
      const part = this.#take(left)
      left -= part.length
      yield part
    }
  }

  async skip(count: number): Promise<void> {
    if (this.#rest.length >= count) this.#take(count)
    else for await (const _ of this.upTo(count));
  }

  /** Reads the padding after the end: tar fills its last record. */
  async drain(): Promise<void> {
    for (let left = MAX_PADDING_BYTES; await this.#fill(); ) {
      left -= this.#take(this.#rest.length).length
      if (left < 0) throw new TarProblem("it goes on after its end")
    }
  }

  /** Closes the stream, wherever it is. */
  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  #take(most: number): Buffer {
    const part = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(part.length)
    return part
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
