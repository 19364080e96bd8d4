const BLOCK_BYTES = 512
const SIZE = { at: 124, length: 12 }
const TYPE_AT = 156
const FILE_TYPES = ["0", "\0"]
/** Types of records that describe the entry that follows. */
const ABOUT_TYPES = ["x", "g"]

/**
 * The text of the only entry of an archive; undefined if that is no file. Engines write any dialect of tar; the reader of
 * layers takes one alone, so that nothing can be read in two ways.
 */
export const readSingleFile = (archive: Buffer): string | undefined => {
  let at = 0
  while (at + BLOCK_BYTES <= archive.length) {
    const type = archive.toString("latin1", at + TYPE_AT, at + TYPE_AT + 1)
    const digits = archive.toString("latin1", at + SIZE.at, at + SIZE.at + SIZE.length)
    const bytes = Number.parseInt(digits, 8)
    const begin = at + BLOCK_BYTES
    if (FILE_TYPES.includes(type)) return archive.toString("utf8", begin, begin + bytes)
    if (!ABOUT_TYPES.includes(type)) return undefined
    at = begin + Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES
  }
  return undefined
}
