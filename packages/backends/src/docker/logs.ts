/** At most this much of the output is returned. The engine keeps somewhat more. */
const MAX_LOG_BYTES = 1024 * 1024

/** The length of the header before each piece of output: its stream, three zeros, and its length. */
const HEADER_BYTES = 8
const LENGTH_AT = 4

/** The text of an engine's log, with both streams in the order in which they were written. */
export const readLog = (body: Buffer): string => {
  const pieces: Buffer[] = []
  let at = 0
  while (at + HEADER_BYTES <= body.length) {
    const begin = at + HEADER_BYTES
    at = begin + body.readUInt32BE(at + LENGTH_AT)
    pieces.push(body.subarray(begin, at))
  }
  const text = Buffer.concat(pieces)
  return text.subarray(Math.max(0, text.length - MAX_LOG_BYTES)).toString("utf8")
}
