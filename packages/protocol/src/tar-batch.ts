/** The size of a piece: smaller ones are sent together. */
export const BATCH_BYTES = 256 * 1024

/** Joins bytes into larger pieces: an archive of small files is thousands of headers. */
export async function* batched(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<Buffer> {
  let batch: Buffer[] = []
  let bytes = 0
  for await (const piece of pieces) {
    batch.push(piece)
    bytes += piece.length
    if (bytes < BATCH_BYTES) continue
    yield Buffer.concat(batch)
    batch = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(batch)
}
