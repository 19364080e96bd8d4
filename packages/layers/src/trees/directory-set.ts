import { hash } from "node:crypto"

const FIRST_ROOM = 1024
const KEY_BYTES = 8

/** A set of directories by their paths and inodes, in sixteen bytes each. */
export interface DirectorySet {
  has(path: Buffer, inode: bigint): boolean
  add(path: Buffer, inode: bigint): void
  /** The set as it is sent to another thread. */
  readonly table: BigUint64Array<ArrayBuffer>
}

/** Paths are given as their hashes (`Levels.hashAt`). */
export const openDirectorySet = (
  table: BigUint64Array<ArrayBuffer> = new BigUint64Array(FIRST_ROOM),
): DirectorySet => {
  let keys = table
  let count = keys.reduce((sum, key) => (key === 0n ? sum : sum + 1), 0)
  const grow = (): void => {
    const larger = new BigUint64Array(2 * keys.length)
    for (const key of keys) if (key !== 0n) larger[placeOf(larger, key)] = key
    keys = larger
  }
  return {
    get table() {
      return keys
    },
    has: (path, inode) => {
      const key = keyOf(path, inode)
      return keys[placeOf(keys, key)] === key
    },
    add: (path, inode) => {
      const key = keyOf(path, inode)
      const place = placeOf(keys, key)
      if (keys[place] === key) return
      keys[place] = key
      count += 1
      if (count > keys.length / 2) grow()
    },
  }
}

const keyOf = (path: Buffer, inode: bigint): bigint => {
  const bytes = Buffer.alloc(KEY_BYTES)
  bytes.writeBigUInt64LE(inode)
  const key = hash("sha256", Buffer.concat([path, bytes]), "buffer").readBigUInt64LE()
  // The key is never 0, which is an empty place.
  return key === 0n ? 1n : key
}

/** The place of a key, or the empty one where it belongs. */
const placeOf = (keys: BigUint64Array, key: bigint): number => {
  const mask = keys.length - 1
  for (let at = Number(key & BigInt(mask)); ; at = (at + 1) & mask)
    if (keys[at] === key || keys[at] === 0n) return at
}
