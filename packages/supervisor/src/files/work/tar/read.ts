import { paddingOf, readHeader, refused, TAR, type TarHeader } from "./header.ts"
import { ByteSource } from "./source.ts"

/** Of a name, or of what the POSIX form says of an entry beyond its header. */
const MAX_EXTRA_BYTES = 64 * 1024

export interface TarEntry extends TarHeader {
  /** To be read to its end before the next entry is asked for; what is left of it is passed over. */
  readonly content: AsyncGenerator<Buffer>
}

/** The entries of an archive, in the POSIX or the GNU form. */
export async function* readTar(chunks: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const source = new ByteSource(chunks)
  try {
    yield* entriesOf(source)
  } finally {
    await source.close()
  }
}

async function* entriesOf(source: ByteSource): AsyncGenerator<TarEntry> {
  let extra: Partial<TarHeader> = {}
  for (;;) {
    const block = await source.block()
    const header = block && readHeader(block)
    if (header === undefined) return await source.drain()
    const { type, size } = header
    if (isExtra(type)) {
      if (size > MAX_EXTRA_BYTES) throw refused("a name in it is too long")
      const value = await source.exactly(size)
      await source.skip(paddingOf(size))
      extra = { ...extra, ...readExtra(type, value) }
      continue
    }
    const entry = { ...header, ...extra }
    extra = {}
    // Only a file has content, whatever its header says of the size.
    const bytes = entry.type === TAR.file ? entry.size : 0
    const content = source.upTo(bytes)
    yield { ...entry, content }
    for await (const _ of content);
    await source.skip(paddingOf(bytes))
  }
}

const isExtra = (type: string): boolean =>
  [TAR.longName, TAR.longTarget, TAR.extended, TAR.extendedForAll].some((each) => each === type)

const readExtra = (type: string, value: Buffer): Partial<TarHeader> => {
  if (type === TAR.extended) return readRecords(value)
  if (type === TAR.extendedForAll) return {}
  const end = value.indexOf(0)
  const name = end === -1 ? value : value.subarray(0, end)
  return type === TAR.longName ? { name } : { target: name }
}

/** `LENGTH KEY=VALUE\n`, one after the other; the length is that of all of it. */
const readRecords = (bytes: Buffer): Partial<TarHeader> => {
  let found: Partial<TarHeader> = {}
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(" ", at)
    const length = Number(bytes.toString("latin1", at, space))
    const equals = bytes.indexOf("=", space)
    const end = at + length - 1
    if (!(space > at && length > 0 && equals > space && equals < end && end < bytes.length))
      throw refused("an extended header has the wrong form")
    const value = bytes.subarray(equals + 1, end)
    found = { ...found, ...readRecord(bytes.toString("latin1", space + 1, equals), value) }
    at = end + 1
  }
  return found
}

const readRecord = (key: string, value: Buffer): Partial<TarHeader> => {
  if (key === "path") return { name: value }
  if (key === "linkpath") return { target: value }
  const number = Number(value.toString("latin1"))
  if (key === "mtime" && Number.isFinite(number)) return { modifiedAtMs: number * 1000 }
  if (key !== "size") return {}
  if (!Number.isSafeInteger(number) || number < 0) throw refused("a size in it is none")
  return { size: number }
}
