import { statfs } from "node:fs/promises"

export interface FreeSpace {
  readonly bytes: number
  readonly inodes: number
}

/** The space and inodes that users other than root may still take on the disk of a directory. */
export const readFreeSpace = async (directory: string): Promise<FreeSpace> => {
  const { bavail, bsize, files, ffree } = await statfs(directory)
  // File systems that make inodes on demand report a total of zero.
  return { bytes: bavail * bsize, inodes: files === 0 ? Number.POSITIVE_INFINITY : ffree }
}
