import { paddingOf, readHeader, TAR, type TarHeader, TarProblem } from "./tar-header.ts"
import { ByteSource } from "./tar-source.ts"

/** The bound on a name, or on the POSIX form's extra records of an entry. */
const MAX_EXTRA_BYTES = 64 * 1024

/** The most extra headers before an entry: a name, a target, and the POSIX records. */
const MAX_EXTRAS = 4

export interface TarEntry extends TarHeader {
  /** The comment of an entry of the type `extendedForAll`, which is about no file. */
  readonly comment?: Buffer
  /** The content. It is read to its end before the next entry is asked for; the rest of it is skipped. */
  readonly content: AsyncGenerator<Buffer>
}

/**
 * The entries of an archive, in the POSIX or the GNU form. Names, targets, sizes and kinds are whatever the archive
 * says. Throws a `TarProblem` where it cannot be read.
 */
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
  let extras = 0
  for (;;) {
    const block = await source.block()
    if (block === undefined) throw new TarProblem("it ends too soon")
    const header = readHeader(block)
    if (header === undefined) return await source.drain()
    const { type, size } = header
    if (isExtra(type)) {
      if (size > MAX_EXTRA_BYTES) throw new TarProblem("a name in it is too long")
      const value = await source.exactly(size)
      await source.skip(paddingOf(size))
      if (++extras > MAX_EXTRAS) throw new TarProblem("an entry has too many headers")
      if (type === TAR.extendedForAll) {
        extras = 0
        yield { ...header, comment: commentIn(value), content: source.upTo(0) }
      } else extra = { ...extra, ...readExtra(type, value) }
      continue
    }
    const entry = { ...header, ...extra }
    extra = {}
    extras = 0
    // Only a file has content, whatever size its header has.
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
  const end = value.indexOf(0)
  const name = end === -1 ? value : value.subarray(0, end)
  return type === TAR.longName ? { name } : { target: name }
}

const readRecords = (bytes: Buffer): Partial<TarHeader> => {
  let found: Partial<TarHeader> = {}
  for (const [key, value] of recordsOf(bytes)) found = { ...found, ...readRecord(key, value) }
  return found
}

const commentIn = (bytes: Buffer): Buffer =>
  [...recordsOf(bytes)].find(([key]) => key === "comment")?.[1] ?? Buffer.alloc(0)

/** Parses records of the form `LENGTH KEY=VALUE\n`; the length is that of the whole record. */
function* recordsOf(bytes: Buffer): Generator<readonly [string, Buffer]> {
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(" ", at)
    const length = Number(bytes.toString("latin1", at, space))
    const equals = bytes.indexOf("=", space)
    const end = at + length - 1
    if (!(space > at && length > 0 && equals > space && equals < end && end < bytes.length))
      throw new TarProblem("an extended header has the wrong form")
    const value = bytes.subarray(equals + 1, end)
    yield [bytes.toString("latin1", space + 1, equals), value]
    at = end + 1
  }
}

const readRecord = (key: string, value: Buffer): Partial<TarHeader> => {
  if (key === "path") return { name: value }
  if (key === "linkpath") return { target: value }
  const number = Number(value.toString("latin1"))
  if (key === "mtime" && Number.isFinite(number)) return { modifiedAtMs: number * 1000 }
  if (key !== "size") return {}
  if (!Number.isSafeInteger(number) || number < 0) throw new TarProblem("a size in it is none")
  return { size: number }
}
