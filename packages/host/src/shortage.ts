import { abortable } from "./abortable.ts"
import { readFreeMemory } from "./free-memory.ts"
import { type FreeSpace, readFreeSpace } from "./free-space.ts"
import { timeoutSignal } from "./timeout-signal.ts"

/** out: nothing new is begun. low: room is made before it comes to that. */
export type ShortageLevel = "low" | "out"

/** The resource of the host that is short. */
export interface Lack {
  readonly of: "disk" | "memory"
  readonly words: string
}

/** Reads the host's resources; undefined: there is enough of everything. */
export type Shortage = (level: ShortageLevel) => Promise<Lack | undefined>

export interface Free {
  /** Free space on the disk that holds the data directory. */
  readonly disk: FreeSpace
  readonly memoryBytes: number
}

const MB = 1_000_000

/**
 * The least free resources at each level. A boot needs a few megabytes of disk, a clone with its dependencies hundreds,
 * and tens of thousands of files. A supervisor takes some 60 MB of memory, an agent some 300; a host that has less left
 * begins to kill.
 */
export const LEAST: Readonly<Record<ShortageLevel, Free>> = {
  out: { disk: { bytes: 500 * MB, inodes: 20_000 }, memoryBytes: 200 * MB },
  low: { disk: { bytes: 1_000 * MB, inodes: 40_000 }, memoryBytes: 400 * MB },
}

/** A disk that does not answer is not waited for longer. */
const READ_DEADLINE_MS = 5_000

export const openShortage =
  (dataDir: string, read: (dataDir: string) => Promise<Free> = readFree): Shortage =>
  async (level) =>
    shortageOf(await abortable(read(dataDir), timeoutSignal(READ_DEADLINE_MS)), level)

export const shortageOf = ({ disk, memoryBytes }: Free, level: ShortageLevel): Lack | undefined => {
  const least = LEAST[level]
  if (disk.bytes < least.disk.bytes)
    return { of: "disk", words: `the disk has ${spoken(disk.bytes)} left` }
  if (disk.inodes < least.disk.inodes)
    return { of: "disk", words: `the disk has room for ${disk.inodes} more files` }
  if (memoryBytes < least.memoryBytes)
    return { of: "memory", words: `the host has ${spoken(memoryBytes)} of memory left` }
  return undefined
}

const readFree = async (dataDir: string): Promise<Free> => {
  const [disk, memoryBytes] = await Promise.all([readFreeSpace(dataDir), readFreeMemory()])
  return { disk, memoryBytes }
}

const spoken = (bytes: number): string => `${Math.max(0, Math.floor(bytes / MB))} MB`
