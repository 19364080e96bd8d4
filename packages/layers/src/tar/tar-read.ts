import { ByteSource } from "./byte-source.ts"
import { parsePax } from "./pax.ts"
import { refuse } from "./refuse.ts"

export const BLOCK_BYTES = 512
/** Room for the longest path, a link as long, and the attributes that a file system can hold for one file. */
const MAX_PAX_BYTES = 1024 * 1024

/** Tar fills its last record, of 10 kilobytes unless it is told otherwise. */
const MAX_PADDING_BYTES = 1024 * 1024

export interface TarEntry {
  /** The path, with one character for each byte: names on Linux are bytes, not text. */
  readonly path: string
  readonly type: string
  readonly mode: number
  readonly uid: number
  readonly gid: number
  /** Seconds with their fraction, as text. */
  readonly mtime: string
  readonly linkPath: string
  readonly deviceMajor: number
  readonly deviceMinor: number
  /** The length of the body in the archive. */
  readonly bodyBytes: number
  readonly pax: ReadonlyMap<string, Buffer>
  /** The body. Parts that are not read are skipped when the next entry is asked for. */
  readonly body: AsyncIterable<Buffer>
}

/**
 * The entries of a tar stream, POSIX (pax) only: the form that tar makes with `--format=pax`. Forms of other dialects
 * are refused, so that nothing can be read in two ways.
 */
export async function* readTar(stream: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const source = new ByteSource(stream)
  let pax: ReadonlyMap<string, Buffer> = new Map()
  for (;;) {
    const block = await source.exactly(BLOCK_BYTES)
    if (isZero(block)) break
    const header = parseHeader(block)
    if (header.type === "x") {
      if (pax.size > 0) refuse("two extended headers in a row", header.path)
      if (header.bodyBytes > MAX_PAX_BYTES) refuse("an extended header is too long", header.path)
      pax = parsePax(await source.exactly(header.bodyBytes))
      await source.skip(padding(header.bodyBytes))
      continue
    }
    const entry = { ...header, ...overrides(pax), pax }
    const body = source.window(entry.bodyBytes)
    yield { ...entry, body }
    for await (const _ of body) {
      // Skips what the consumer left of the body.
    }
    await source.skip(padding(entry.bodyBytes))
    pax = new Map()
  }
  if (pax.size > 0) refuse("it ends after an extended header", "")
  await source.drain(MAX_PADDING_BYTES)
}

export const padding = (bytes: number): number =>
  (BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES

type Header = Omit<TarEntry, "pax" | "body">

const parseHeader = (block: Buffer): Header => {
  const prefix = text(block, 345, 155)
  const name = text(block, 0, 100)
  const path = prefix === "" ? name : `${prefix}/${name}`
  if (block.toString("latin1", 257, 265) !== "ustar\x0000") refuse("not a POSIX tar header", path)
  if (octal(block, 148, 8, path) !== checksum(block)) refuse("its header is damaged", path)
  return {
    path,
    type: String.fromCharCode(block[156] ?? 0).replace("\0", "0"),
    mode: octal(block, 100, 8, path),
    uid: octal(block, 108, 8, path),
    gid: octal(block, 116, 8, path),
    bodyBytes: octal(block, 124, 12, path),
    mtime: String(octal(block, 136, 12, path)),
    linkPath: text(block, 157, 100),
    deviceMajor: octal(block, 329, 8, path),
    deviceMinor: octal(block, 337, 8, path),
  }
}

/** The fields that an extended header sets in place of the plain one. */
const overrides = (pax: ReadonlyMap<string, Buffer>): Partial<Header> => {
  const words = (key: string) => pax.get(key)?.toString("latin1")
  const path = words("path")
  const linkPath = words("linkpath")
  const mtime = words("mtime")
  const number = (key: string): number | undefined => {
    const word = words(key)
    if (word === undefined) return undefined
    return /^\d{1,15}$/.test(word) ? Number(word) : refuse(`its ${key} is no number`, path ?? "")
  }
  if (mtime !== undefined && !/^-?\d{1,15}(\.\d{1,9})?$/.test(mtime)) {
    refuse("its mtime is no time", path ?? "")
  }
  const uid = number("uid")
  const gid = number("gid")
  const bodyBytes = number("size")
  return {
    ...(path !== undefined && { path }),
    ...(linkPath !== undefined && { linkPath }),
    ...(mtime !== undefined && { mtime }),
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
    ...(bodyBytes !== undefined && { bodyBytes }),
  }
}

const text = (block: Buffer, start: number, length: number): string => {
  const field = block.subarray(start, start + length)
  const end = field.indexOf(0)
  return field.toString("latin1", 0, end === -1 ? length : end)
}

const octal = (block: Buffer, start: number, length: number, path: string): number => {
  const digits = text(block, start, length).trim()
  if (!/^[0-7]*$/.test(digits)) refuse("a number in its header is not octal", path)
  return digits === "" ? 0 : Number.parseInt(digits, 8)
}

/** The sum of the header's bytes, with the checksum's own field taken as spaces. */
export const checksum = (block: Buffer): number => {
  let sum = 0
  // A loop by index: an iterator over the bytes of every header is most of what an archive costs here.
  for (let at = 0; at < BLOCK_BYTES; at += 1) sum += at >= 148 && at < 156 ? 32 : (block[at] ?? 0)
  return sum
}

const ZERO_BLOCK = Buffer.alloc(BLOCK_BYTES)
const isZero = (block: Buffer): boolean => block.equals(ZERO_BLOCK)
