import type { FreeSpace } from "@berth/host/free-space"
import type { SandboxId } from "@berth/protocol/ids"

/** The room that is left on a disk, and the size of the disk. */
export interface Disk {
  readonly free: FreeSpace
  readonly size: FreeSpace
}

/** The resource that is short. */
export type Short = keyof FreeSpace

const MB = 1_000_000

/**
 * Writers are halted below this much free room: it is enough for the server and for all that others write until a
 * person has read why. Of a small disk only a fiftieth is kept free.
 */
const HALT: FreeSpace = { bytes: 256 * MB, inodes: 10_000 }
const SMALL_SHARE = 50
/** Halted sandboxes go on when this multiple of the room is free, so that a writer is not woken and halted in turns. */
const ROOM = 2

/** The resource of the disk that is short; undefined if none is. */
export const shortOf = (disk: Disk): Short | undefined => {
  const least = leastOf(disk)
  if (disk.free.bytes < least.bytes) return "bytes"
  return disk.free.inodes < least.inodes ? "inodes" : undefined
}

/** Whether halted sandboxes may go on. */
export const hasRoom = (disk: Disk): boolean => {
  const least = leastOf(disk)
  return disk.free.bytes >= ROOM * least.bytes && disk.free.inodes >= ROOM * least.inodes
}

const leastOf = ({ size }: Disk): FreeSpace => ({
  bytes: Math.min(HALT.bytes, size.bytes / SMALL_SHARE),
  inodes: Math.min(HALT.inodes, size.inodes / SMALL_SHARE),
})

/** The most that a disk takes in a second. */
export const FASTEST: FreeSpace = { bytes: 2_000 * MB, inodes: 200_000 }
const SOONEST_MS = 50
const LATEST_MS = 5_000

/** When to look again: before anybody can have written all that is left. */
export const nextLookMs = (disk: Disk): number => {
  const least = leastOf(disk)
  const bytesMs = (1_000 * (disk.free.bytes - least.bytes)) / FASTEST.bytes
  const inodesMs = (1_000 * (disk.free.inodes - least.inodes)) / FASTEST.inodes
  return Math.max(SOONEST_MS, Math.min(LATEST_MS, bytesMs, inodesMs))
}

/** The room that each sandbox takes of the disk, in bytes or inodes. */
export type Usage = ReadonlyMap<SandboxId, number>

/** Sandboxes that grew by this part of the whole growth count as writers, beside the one that grew most. */
const WRITER_SHARE = 0.25

/** Growth below this is no reason to halt a sandbox: any program writes as much in a moment. */
const LITTLE: FreeSpace = { bytes: MB, inodes: 100 }

/**
 * Finds the sandboxes that took the missing room: their files grew most since they were last measured. The growth of a
 * sandbox that was never measured is all that it has; it is not why the disk is full if that is less than what is to be
 * left free.
 */
export const writersOf = (now: Usage, before: Usage, disk: Disk, what: Short): SandboxId[] => {
  const least = leastOf(disk)[what]
  const grown = [...now].map(([sandbox, used]) => ({
    sandbox,
    by: used === before.get(sandbox) ? 0 : used - (before.get(sandbox) ?? 0),
    atLeast: before.has(sandbox) ? LITTLE[what] : least,
  }))
  const all = grown.reduce((sum, { by }) => sum + Math.max(0, by), 0)
  const most = Math.max(0, ...grown.map(({ by }) => by))
  return grown
    .filter(({ by, atLeast }) => by >= atLeast && (by === most || by >= WRITER_SHARE * all))
    .map(({ sandbox }) => sandbox)
}
