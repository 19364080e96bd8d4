import { hash } from "node:crypto"

const HASH_BYTES = 32
const INODE_AT = HASH_BYTES
const LENGTH_AT = INODE_AT + 8
const LEVEL_BYTES = LENGTH_AT + 4

/** The kernel takes no longer paths; the rest of its 4,096 bytes is for the prefix of the path. */
const MAX_PATH_BYTES = 4_000

/** The directories from a tree's root down to the one that a walk is in, in a few bytes each, whatever their names. */
export interface Levels {
  /** Puts a directory below the one at `depth - 1`; deeper ones are forgotten. */
  enter(depth: number, name: Buffer, inode: bigint): void
  /** A hash of the path of the directory at a depth. */
  hashAt(depth: number): Buffer
  inodeAt(depth: number): bigint
  /** The path of the directory at a depth, from the root; undefined if it is too long to be used. */
  directoryAt(depth: number): Buffer | undefined
  /** The path of a name in the directory at a depth, from the root; undefined if it is too long to be used. */
  pathOf(depth: number, name: Buffer): Buffer | undefined
}

export const openLevels = (): Levels => {
  let levels = Buffer.alloc(1024 * LEVEL_BYTES)
  /** The path of the deepest directory, as far as it is short enough; the paths above it are its prefixes. */
  const path = Buffer.alloc(MAX_PATH_BYTES)
  const lengthAt = (depth: number) => levels.readUInt32LE(depth * LEVEL_BYTES + LENGTH_AT)
  const hashAt = (depth: number) =>
    levels.subarray(depth * LEVEL_BYTES, depth * LEVEL_BYTES + HASH_BYTES)
  return {
    hashAt,
    inodeAt: (depth) => levels.readBigUInt64LE(depth * LEVEL_BYTES + INODE_AT),
    enter: (depth, name, inode) => {
      const at = depth * LEVEL_BYTES
      if (at + LEVEL_BYTES > levels.length) levels = Buffer.concat([levels, Buffer.alloc(at)])
      const above = depth === 0 ? Buffer.alloc(0) : hashAt(depth - 1)
      hash("sha256", Buffer.concat([above, name]), "buffer").copy(levels, at)
      levels.writeBigUInt64LE(inode, at + INODE_AT)
      const length = depth === 0 ? 0 : Math.min(lengthAt(depth - 1) + name.length + 1, 0xffff)
      levels.writeUInt32LE(length, at + LENGTH_AT)
      if (depth === 0 || length > MAX_PATH_BYTES) return
      name.copy(path, length - name.length - 1)
      path[length - 1] = SLASH
    },
    directoryAt: (depth) => {
      const length = lengthAt(depth)
      if (length > MAX_PATH_BYTES) return undefined
      return Buffer.from(path.subarray(0, Math.max(0, length - 1)))
    },
    pathOf: (depth, name) => {
      const length = lengthAt(depth)
      if (length + name.length > MAX_PATH_BYTES) return undefined
      return Buffer.concat([path.subarray(0, length), name])
    },
  }
}

const SLASH = "/".charCodeAt(0)
