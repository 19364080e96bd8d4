import { constants } from "node:fs"
import { access, statfs } from "node:fs/promises"
import { resolve } from "node:path"
import type { DoctorFinding } from "@berth/protocol/doctor"
import type { Check } from "../tools/check.ts"
import { nearestDirectory } from "../tools/nearest-directory.ts"

const GIB = 1024 ** 3

/** A toolbox, a few clones and their dependencies fill this much in a day's work. */
export const COMFORTABLE_BYTES = 10 * GIB

/** The toolbox alone takes about this much. */
export const LEAST_BYTES = 1 * GIB

/** One checkout with its dependencies has tens of thousands of files. */
export const COMFORTABLE_INODES = 200_000

export const disk: Check = {
  name: "disk",
  why: "Layers, logs and the database live in the data directory. A sandbox that fills the disk, or takes more of it than limits.diskBytes allows, is halted.",
  probe: async ({ dataDir }) => {
    const directory = await nearestDirectory(dataDir)
    const { bavail, bsize, files, ffree } = await statfs(directory)
    const writable = await access(directory, constants.W_OK).then(
      () => true,
      () => false,
    )
    return judge({
      dataDir: resolve(dataDir),
      directory,
      writable,
      freeBytes: bavail * bsize,
      // File systems that make inodes on demand report a total of zero.
      freeInodes: files === 0 ? Number.POSITIVE_INFINITY : ffree,
    })
  },
}

interface Space {
  readonly dataDir: string
  /** The data directory, or the closest existing one above it. */
  readonly directory: string
  readonly writable: boolean
  readonly freeBytes: number
  readonly freeInodes: number
}

export const judge = (space: Space): DoctorFinding => {
  const { dataDir, directory, writable, freeBytes, freeInodes } = space
  const place = directory === dataDir ? dataDir : `${dataDir} (not made yet)`
  const found = `${(freeBytes / GIB).toFixed(1)} GiB free for ${place}`
  const details = { dataDir, freeBytes, writable }
  const fix = `free space on the disk of ${directory}, or choose another data directory with --data-dir`
  if (!writable) {
    return {
      status: "missing",
      found: `${directory} is not writable`,
      fix: `make ${directory} writable for this user, or choose another data directory with --data-dir`,
      details,
    }
  }
  if (freeBytes < LEAST_BYTES) return { status: "missing", found, fix, details }
  if (freeBytes < COMFORTABLE_BYTES) return { status: "degraded", found, fix, details }
  if (freeInodes < COMFORTABLE_INODES) {
    return { status: "degraded", found: `${found}, but only ${freeInodes} inodes`, fix, details }
  }
  return { status: "ok", found, details }
}
