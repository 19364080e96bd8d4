/** Stands for a record that is longer than the limit. */
export const TOO_LONG = Symbol("too long")

/** Splits a stream into records, each ended by the byte `end`. A record that is too long costs no memory. */
export async function* records(
  source: AsyncIterable<Buffer>,
  { end, maxBytes }: { end: number; maxBytes: number },
): AsyncGenerator<Buffer | typeof TOO_LONG> {
  let parts: Buffer[] = []
  let bytes = 0
  const add = (part: Buffer) => {
    bytes += part.length
    if (bytes > maxBytes) parts = []
    else parts.push(part)
  }
  for await (const chunk of source) {
    let from = 0
    for (let at = chunk.indexOf(end); at !== -1; at = chunk.indexOf(end, from)) {
      add(chunk.subarray(from, at))
      yield bytes > maxBytes ? TOO_LONG : Buffer.concat(parts)
      parts = []
      bytes = 0
      from = at + 1
    }
    add(chunk.subarray(from))
  }
}
