import { batched } from "@berth/protocol/tar-batch"
import { formatPax } from "./pax.ts"
import { BLOCK_BYTES, checksum, padding, type TarEntry } from "./tar-read.ts"

/** Writes entries in the one form that `readTar` takes: everything that could need room is in the extended header. */
export const writeTar = (entries: AsyncIterable<TarEntry>): AsyncGenerator<Buffer> =>
  batched(pieces(entries))

async function* pieces(entries: AsyncIterable<TarEntry>): AsyncGenerator<Buffer> {
  for await (const entry of entries) {
    yield headers(entry)
    if (entry.bodyBytes === 0) continue
    yield* entry.body
    yield Buffer.alloc(padding(entry.bodyBytes))
  }
  yield Buffer.alloc(2 * BLOCK_BYTES)
}

const headers = (entry: TarEntry): Buffer => {
  const pax = formatPax([...numbers(entry), ...entry.pax])
  return Buffer.concat([
    plainHeader({ ...PAX_HEADER, bodyBytes: pax.length }),
    pax,
    Buffer.alloc(padding(pax.length)),
    plainHeader(entry),
  ])
}

/**
 * The records of an extended header. A sparse file's name is in its own record: `path` would take precedence over it.
 */
const numbers = (entry: TarEntry): [string, Buffer][] => {
  const latin1 = (text: string) => Buffer.from(text, "latin1")
  return [
    ...(entry.pax.has("GNU.sparse.name") ? [] : [["path", latin1(entry.path)] as [string, Buffer]]),
    ...(entry.linkPath === "" ? [] : [["linkpath", latin1(entry.linkPath)] as [string, Buffer]]),
    ["size", latin1(String(entry.bodyBytes))],
    ["uid", latin1(String(entry.uid))],
    ["gid", latin1(String(entry.gid))],
    ["mtime", latin1(entry.mtime)],
  ]
}

type PlainHeader = Pick<TarEntry, "type" | "mode" | "bodyBytes" | "deviceMajor" | "deviceMinor">

const PAX_HEADER: PlainHeader = {
  type: "x",
  mode: 0o600,
  bodyBytes: 0,
  deviceMajor: 0,
  deviceMinor: 0,
}

/** The name in the plain header is never used: the extended header has the real one. */
const PLACEHOLDER = "entry"

const plainHeader = ({ type, mode, bodyBytes, deviceMajor, deviceMinor }: PlainHeader): Buffer => {
  const block = Buffer.alloc(BLOCK_BYTES)
  const octal = (value: number, start: number, length: number) =>
    block.write(value.toString(8).padStart(length - 1, "0"), start, "latin1")
  block.write(PLACEHOLDER, 0, "latin1")
  octal(mode, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(bodyBytes > MAX_PLAIN_BYTES ? 0 : bodyBytes, 124, 12)
  octal(0, 136, 12)
  block.write(type, 156, "latin1")
  block.write("ustar\x0000", 257, "latin1")
  octal(deviceMajor, 329, 8)
  octal(deviceMinor, 337, 8)
  octal(checksum(block), 148, 8)
  return block
}

/** The most that eleven octal digits hold; a longer body's length is in the extended header only. */
const MAX_PLAIN_BYTES = 0o77777777777
