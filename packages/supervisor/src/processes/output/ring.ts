/** Keeps the last bytes of a stream, in memory that is allocated once. */
export class ByteRing {
  readonly #bytes: Buffer
  #start = 0
  #length = 0
  #writtenBytes = 0

  constructor(capacityBytes: number) {
    this.#bytes = Buffer.alloc(capacityBytes)
  }

  /** The number of bytes ever written, of which the ring holds the last. */
  get writtenBytes(): number {
    return this.#writtenBytes
  }

  /** The number of bytes that the ring holds. */
  get length(): number {
    return this.#length
  }

  write(chunk: Buffer): void {
    this.#writtenBytes += chunk.length
    const capacity = this.#bytes.length
    const tail = chunk.length > capacity ? chunk.subarray(chunk.length - capacity) : chunk
    const end = (this.#start + this.#length) % capacity
    const first = Math.min(tail.length, capacity - end)
    tail.copy(this.#bytes, end, 0, first)
    tail.copy(this.#bytes, 0, first)
    const overwritten = Math.max(0, this.#length + tail.length - capacity)
    this.#start = (this.#start + overwritten) % capacity
    this.#length += tail.length - overwritten
  }

  /** The offset, in all that was written, of the first byte that the ring holds. */
  get firstOffset(): number {
    return this.#writtenBytes - this.#length
  }

  /** Copies bytes from an offset on, up to a limit. The ring must hold the byte at the offset. */
  read(offset: number, maxBytes: number): Buffer {
    const capacity = this.#bytes.length
    const skipped = offset - this.firstOffset
    const length = Math.min(maxBytes, this.#length - skipped)
    const start = (this.#start + skipped) % capacity
    const first = this.#bytes.subarray(start, Math.min(capacity, start + length))
    return Buffer.concat([first, this.#bytes.subarray(0, length - first.length)])
  }

  /** The text that the ring holds, without a character that is cut at its start. */
  text(): string {
    return this.#whole().toString("utf8")
  }

  /** Removes and returns the text. An incomplete character at the end stays for the next call. */
  take(): string {
    const whole = this.#whole()
    const complete = whole.subarray(0, whole.length - unfinishedBytes(whole))
    const rest = Buffer.from(whole.subarray(complete.length))
    const text = complete.toString("utf8")
    this.#start = 0
    this.#length = rest.copy(this.#bytes)
    return text
  }

  /** The bytes in order, from the first whole character on. */
  #whole(): Buffer {
    const capacity = this.#bytes.length
    const first = this.#bytes.subarray(this.#start, Math.min(capacity, this.#start + this.#length))
    const second = this.#bytes.subarray(0, this.#length - first.length)
    const all = second.length === 0 ? first : Buffer.concat([first, second])
    if (this.#writtenBytes === this.#length) return all
    let cut = 0
    while (cut < Math.min(MAX_CHAR_BYTES - 1, all.length) && isContinuation(all[cut])) cut++
    return all.subarray(cut)
  }
}

const MAX_CHAR_BYTES = 4

const isContinuation = (byte: number | undefined): boolean =>
  byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000

/** The number of bytes at the end that begin an incomplete UTF-8 character. */
const unfinishedBytes = (bytes: Buffer): number => {
  for (let back = 1; back < MAX_CHAR_BYTES && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] as number
    if (isContinuation(byte)) continue
    return charBytes(byte) > back ? back : 0
  }
  return 0
}

const charBytes = (lead: number): number =>
  lead >= 0b1111_0000 ? 4 : lead >= 0b1110_0000 ? 3 : lead >= 0b1100_0000 ? 2 : 1
