/** Headers of tar archives, in the GNU form; the POSIX form is read as well. */

export const BLOCK_BYTES = 512
const NAME_BYTES = 100

/** The kinds of entries that tar knows, by their letter. */
export const TAR = {
  file: "0",
  hardLink: "1",
  link: "2",
  directory: "5",
  longName: "L",
  longTarget: "K",
  extended: "x",
  extendedForAll: "g",
} as const

export interface TarHeader {
  readonly type: string
  readonly name: Buffer
  readonly target: Buffer
  readonly size: number
  readonly mode: number
  readonly modifiedAtMs: number
}

/** Writes a number in octal, or as a binary number where it does not fit, as GNU tar does. */
const writeNumber = (block: Buffer, at: number, length: number, value: number): void => {
  const whole = Math.max(0, Math.floor(value))
  if (whole < 8 ** (length - 1)) {
    block.write(whole.toString(8).padStart(length - 1, "0"), at, "latin1")
    return
  }
  block.writeBigUInt64BE(BigInt(whole), at + length - 8)
  block[at] = 0x80
}

const readNumber = (block: Buffer, at: number, length: number): number => {
  const field = block.subarray(at, at + length)
  if (((field[0] ?? 0) & 0x80) !== 0) return readBinary(field)
  const text = textOf(field).trim()
  if (!/^[0-7]*$/.test(text)) throw new TarProblem("a number in it is none")
  return text === "" ? 0 : Number.parseInt(text, 8)
}

/**
 * Reads a binary number, whose first bit marks it as one. No size, time or mode is larger than a JavaScript number can
 * hold.
 */
const readBinary = (field: Buffer): number => {
  const digits = Buffer.from(field)
  digits[0] = (digits[0] ?? 0) & 0x7f
  const value = BigInt(`0x${digits.toString("hex")}`)
  if (value > Number.MAX_SAFE_INTEGER) throw new TarProblem("a number in it is too large")
  return Number(value)
}

const textOf = (field: Buffer): string => untilNul(field).toString("latin1")

const untilNul = (field: Buffer): Buffer => {
  const end = field.indexOf(0)
  return end === -1 ? field : field.subarray(0, end)
}

/** The blocks before an entry's content. Long names come first, each in an entry of its own, as GNU tar does it. */
export const writeHeader = (header: TarHeader & { uid: number; gid: number }): Buffer => {
  const { name, target } = header
  const blocks: Buffer[] = []
  if (name.length > NAME_BYTES) blocks.push(longEntry(TAR.longName, name))
  if (target.length > NAME_BYTES) blocks.push(longEntry(TAR.longTarget, target))
  return Buffer.concat([...blocks, block(header)])
}

/** A comment of the archive's writer. Programs that read the archive skip it. */
export const writeComment = (comment: Buffer): Buffer => {
  const record = Buffer.concat([Buffer.from(" comment="), comment, Buffer.from("\n")])
  let length = record.length + String(record.length).length
  length = record.length + String(length).length
  return extraEntry(TAR.extendedForAll, Buffer.concat([Buffer.from(String(length)), record]))
}

const longEntry = (type: string, value: Buffer): Buffer =>
  extraEntry(type, Buffer.concat([value, Buffer.alloc(1)]))

const extraEntry = (type: string, content: Buffer): Buffer => {
  const name = Buffer.from("././@LongLink")
  const none = { target: Buffer.alloc(0), mode: 0, modifiedAtMs: 0, uid: 0, gid: 0 }
  return Buffer.concat([
    block({ type, name, size: content.length, ...none }),
    content,
    Buffer.alloc(paddingOf(content.length)),
  ])
}

const block = (header: TarHeader & { uid: number; gid: number }): Buffer => {
  const made = Buffer.alloc(BLOCK_BYTES)
  header.name.copy(made, 0, 0, NAME_BYTES)
  writeNumber(made, 100, 8, header.mode)
  writeNumber(made, 108, 8, header.uid)
  writeNumber(made, 116, 8, header.gid)
  writeNumber(made, 124, 12, header.size)
  writeNumber(made, 136, 12, header.modifiedAtMs / 1000)
  made.write(header.type, 156, "latin1")
  header.target.copy(made, 157, 0, NAME_BYTES)
  made.write("ustar  \0", 257, "latin1")
  made.write(`${checksumOf(made).toString(8).padStart(6, "0")}\0 `, 148, "latin1")
  return made
}

const EMPTY_BLOCK = Buffer.alloc(BLOCK_BYTES)

/** Reads a header. Undefined: the block is empty, and the archive at its end. */
export const readHeader = (made: Buffer): TarHeader | undefined => {
  if (made.equals(EMPTY_BLOCK)) return undefined
  if (readNumber(made, 148, 8) !== checksumOf(made))
    throw new TarProblem("a header's checksum is wrong")
  const name = untilNul(made.subarray(0, NAME_BYTES))
  // Only the POSIX form has a prefix of the name there; GNU's keeps other things in its place.
  const isPosix = made.toString("latin1", 257, 263) === "ustar\0"
  const prefix = isPosix ? untilNul(made.subarray(345, 500)) : Buffer.alloc(0)
  const letter = made.toString("latin1", 156, 157)
  return {
    type: letter === "\0" || letter === "7" ? TAR.file : letter,
    name: prefix.length === 0 ? name : Buffer.concat([prefix, Buffer.from("/"), name]),
    target: untilNul(made.subarray(157, 257)),
    size: readNumber(made, 124, 12),
    mode: readNumber(made, 100, 8),
    modifiedAtMs: readNumber(made, 136, 12) * 1000,
  }
}

/** The sum of all bytes, with those of the checksum itself as spaces. */
const checksumOf = (made: Buffer): number => {
  let sum = 0
  for (let at = 0; at < BLOCK_BYTES; at++) sum += at >= 148 && at < 156 ? 32 : (made[at] ?? 0)
  return sum
}

/** The bytes from the end of a content to the next block. */
export const paddingOf = (size: number): number =>
  (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES

/** The error of an archive that cannot be read. */
export class TarProblem extends Error {
  override readonly name = "TarProblem"
}
