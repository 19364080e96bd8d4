/** An entry of an archive: a directory, or a file with its contents. */
export interface TarEntry {
  readonly path: string
  readonly mode: number
  readonly owner: number
  /** Absent for a directory. */
  readonly contents?: Buffer
}

const BLOCK = 512
const DIRECTORY = "5"
const FILE = "0"

/** Makes a tar archive of a few small entries, with owners that need not exist here. */
export const tarOf = (entries: readonly TarEntry[]): Buffer =>
  Buffer.concat([...entries.flatMap(blocksOf), Buffer.alloc(2 * BLOCK)])

const blocksOf = (entry: TarEntry): Buffer[] => {
  const { contents = Buffer.alloc(0) } = entry
  return [headOf(entry), contents, Buffer.alloc((BLOCK - (contents.length % BLOCK)) % BLOCK)]
}

/** Writes the fields of the header, by their offsets. Numbers are octal digits that end with a zero. */
const headOf = ({ path, mode, owner, contents }: TarEntry): Buffer => {
  const head = Buffer.alloc(BLOCK)
  const number = (value: number, at: number, length: number) =>
    head.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at)
  head.write(path, 0)
  number(mode, 100, 8)
  number(owner, 108, 8)
  number(owner, 116, 8)
  number(contents?.length ?? 0, 124, 12)
  number(Math.floor(Date.now() / 1_000), 136, 12)
  head.write(contents === undefined ? DIRECTORY : FILE, 156)
  head.write("ustar\x0000", 257)
  // The checksum is computed over a header whose own checksum field is blank.
  head.write(" ".repeat(8), 148)
  const sum = head.reduce((total, byte) => total + byte, 0)
  head.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return head
}
