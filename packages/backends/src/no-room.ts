import { readFreeSpace } from "@berth/host/free-space"
import { BerthError } from "@berth/protocol/errors"

/** A disk with less free than this is full: an engine needs more for a sandbox. */
const LITTLE_BYTES = 1024 * 1024

/**
 * Turns an engine's failure into that of a full disk if the disk of this directory is full. Engines and runtimes say so
 * in words alone, so the disk is looked at.
 */
export const orNoRoom = async (failure: BerthError, directory: string): Promise<BerthError> => {
  const { bytes, inodes } = await readFreeSpace(directory)
  if (bytes >= LITTLE_BYTES && inodes > 0) return failure
  return new BerthError("backend.disk_full", `the disk of ${directory} is full`, {
    details: { ...failure.details, path: directory },
    cause: failure,
  })
}
