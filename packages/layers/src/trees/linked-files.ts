const SLOTS = 2 ** 20

/** A set of inodes of files with several names, in fixed memory. `has` may be true for an inode that was not added. */
export interface LinkedFiles {
  add(inode: bigint): void
  has(inode: bigint): boolean
  isAny(): boolean
}

export const linkedFiles = (): LinkedFiles => {
  const bits = new Uint8Array(SLOTS / 8)
  let count = 0
  const slotOf = (inode: bigint) => Number(inode % BigInt(SLOTS))
  return {
    add: (inode) => {
      const slot = slotOf(inode)
      bits[slot >> 3] = (bits[slot >> 3] ?? 0) | (1 << (slot & 7))
      count += 1
    },
    has: (inode) => {
      const slot = slotOf(inode)
      return ((bits[slot >> 3] ?? 0) & (1 << (slot & 7))) !== 0
    },
    isAny: () => count > 0,
  }
}
