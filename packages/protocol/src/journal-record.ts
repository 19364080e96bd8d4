/** zlib is loaded with the first record, which comes after the first answer on the socket. */
const crc32 = (bytes: Buffer): number => process.getBuiltinModule("node:zlib").crc32(bytes)

/**
 * A record on disk: its length and its checksum, four bytes each, then its bytes. A record is never empty, so that the
 * zeros which a power loss can leave at the end of a file are none.
 */
const HEADER_BYTES = 8

/** Far above the largest record that is written; a larger length is invalid. */
const MAX_RECORD_BYTES = 16 * 1024 * 1024

export const encodeRecord = (payload: Buffer): Buffer => {
  const record = Buffer.allocUnsafe(HEADER_BYTES + payload.length)
  record.writeUInt32LE(payload.length, 0)
  record.writeUInt32LE(crc32(payload), 4)
  payload.copy(record, HEADER_BYTES)
  return record
}

export type Decoded =
  | { readonly kind: "record"; readonly payload: Buffer; readonly end: number }
  /** The bytes end before the record does: it needs this many in all. */
  | { readonly kind: "short"; readonly bytes: number }
  | { readonly kind: "invalid" }

/** Decodes the record at `offset`. */
export const decodeRecord = (bytes: Buffer, offset: number): Decoded => {
  if (bytes.length - offset < HEADER_BYTES) return { kind: "short", bytes: HEADER_BYTES }
  const length = bytes.readUInt32LE(offset)
  if (length === 0 || length > MAX_RECORD_BYTES) return { kind: "invalid" }
  const end = offset + HEADER_BYTES + length
  if (end > bytes.length) return { kind: "short", bytes: HEADER_BYTES + length }
  const payload = bytes.subarray(offset + HEADER_BYTES, end)
  return crc32(payload) === bytes.readUInt32LE(offset + 4)
    ? { kind: "record", payload, end }
    : { kind: "invalid" }
}

/**
 * `log`: the numbers are certain. `uncertain`: they are certain once the server has said which number it saw last,
 * because a power loss may have taken events that it had already been sent.
 */
export type SegmentKind = "log" | "uncertain"

const SEGMENT_NAME = /^(\d{16})\.(log|uncertain)$/

/** The name of a journal segment: the number of its first event, for no record holds a number. */
export const segmentName = (first: number, kind: SegmentKind): string =>
  `${String(first).padStart(16, "0")}.${kind}`

/** The parts of a segment's name; undefined for other files. */
export const parseSegmentName = (
  name: string,
): { first: number; kind: SegmentKind } | undefined => {
  const [, digits, kind] = SEGMENT_NAME.exec(name) ?? []
  return digits === undefined ? undefined : { first: Number(digits), kind: kind as SegmentKind }
}
