import { hash, randomBytes } from "node:crypto"

const FIRST_ROOM = 1024
const SALT_BYTES = 16
/** Marks a taken place: no key is 0, which is an empty place. */
const TAKEN = 2
const DIRECTORY = 1

/** The names that an archive has had so far. */
export interface KnownPaths {
  readonly count: number
  add(path: string, isDirectory: boolean): void
  kindOf(path: string): "directory" | "other" | undefined
}

/**
 * Keeps eight bytes of a salted hash for each path, whatever its length: an archive of a few kilobytes holds millions
 * of names. A collision of two paths is less likely than a broken disk, and nobody can choose one.
 */
export const knownPaths = (): KnownPaths => {
  const salt = randomBytes(SALT_BYTES).toString("latin1")
  let table = emptyTable(FIRST_ROOM)
  let count = 0
  const grow = (): void => {
    const larger = emptyTable(2 * table.high.length)
    for (let at = 0; at < table.high.length; at += 1) {
      const [high = 0, low = 0] = [table.high[at], table.low[at]]
      if (low !== 0) put(larger, high, low)
    }
    table = larger
  }
  return {
    get count() {
      return count
    },
    add: (path, isDirectory) => {
      const { high, low } = keyOf(salt, path)
      put(table, high, isDirectory ? low | DIRECTORY : low)
      count += 1
      if (count > table.high.length / 2) grow()
    },
    kindOf: (path) => {
      const { high, low } = keyOf(salt, path)
      const found = table.low[placeOf(table, high, low)] ?? 0
      return found === 0 ? undefined : (found & DIRECTORY) === 0 ? "other" : "directory"
    },
  }
}

interface Table {
  readonly high: Uint32Array
  /** The last two bits are no part of the key. */
  readonly low: Uint32Array
}

const emptyTable = (room: number): Table => ({
  high: new Uint32Array(room),
  low: new Uint32Array(room),
})

const keyOf = (salt: string, path: string): { high: number; low: number } => {
  const bytes = hash("sha256", Buffer.from(salt + path, "latin1"), "buffer")
  return { high: bytes.readUInt32LE(0), low: withoutKind(bytes.readUInt32LE(4)) | TAKEN }
}

const withoutKind = (low: number): number => low & ~(TAKEN | DIRECTORY)

const put = (table: Table, high: number, low: number): void => {
  const at = placeOf(table, high, low)
  table.high[at] = high
  table.low[at] = low
}

/** The place of a key, or the empty one where it belongs. */
const placeOf = ({ high, low }: Table, wantedHigh: number, wantedLow: number): number => {
  const mask = high.length - 1
  for (let at = wantedHigh & mask; ; at = (at + 1) & mask) {
    const found = low[at] ?? 0
    if (found === 0) return at
    if (high[at] === wantedHigh && withoutKind(found) === withoutKind(wantedLow)) return at
  }
}
