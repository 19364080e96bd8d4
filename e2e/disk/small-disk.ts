import { execFileSync } from "node:child_process"
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** New sandboxes are admitted above 1 GB. Unwritten blocks cost nothing, as the image is sparse. */
const DISK_BYTES = 2 * 1024 ** 3
/** New sandboxes are admitted above 40,000, and a test has to use them all up. */
const INODES = 44_000

export type SmallDisk = ReturnType<typeof makeSmallDisk>

/** Makes a real file system, as small as sandboxes allow. */
export const makeSmallDisk = () => {
  const base = mkdtempSync(join(tmpdir(), "berth-disk-e2e-"))
  const image = join(base, "image")
  const directory = join(base, "disk")
  mkdirSync(directory)
  execFileSync("truncate", ["--size", `${DISK_BYTES}`, image])
  execFileSync("mkfs.ext4", ["-q", "-F", "-m", "5", "-N", `${INODES}`, image])
  execFileSync("mount", ["-o", "loop", image, directory])
  const ballast = join(directory, "ballast")
  return {
    directory,
    /** Everything that was ever written to the disk, as bytes. */
    image,
    /** The free bytes without those that are kept for root. */
    freeBytes: () => {
      const { bavail, bsize } = statfsSync(directory)
      return bavail * bsize
    },
    /** The free bytes with those that are kept for root, which are 5 % of the disk. */
    freeBytesOfRoot: () => {
      const { bfree, bsize } = statfsSync(directory)
      return bfree * bsize
    },
    rootsBytes: DISK_BYTES / 20,
    freeInodes: () => statfsSync(directory).ffree,
    /** Fills the disk to the last inode and the last block, also those that are kept for root. */
    fill: () => {
      mkdirSync(ballast)
      untilFull((number) => closeSync(openSync(join(ballast, `inode-${number}`), "wx")))
      const file = join(ballast, "inode-0")
      let length = 0
      for (let step = 1024 ** 3; step >= 4096; step /= 4)
        untilFull(() => {
          const range = ["--offset", `${length}`, "--length", `${step}`]
          execFileSync("fallocate", [...range, file], { stdio: "ignore" })
          length += step
        })
      execFileSync("sync", ["--file-system", directory])
    },
    clear: () => rmSync(ballast, { recursive: true, force: true }),
    remove: () => {
      execFileSync("umount", ["--lazy", directory])
      rmSync(base, { recursive: true, force: true })
    },
  }
}

/** A real file system without files of root's own. */
export const makePlainDisk = (bytes: number) => {
  const base = mkdtempSync(join(tmpdir(), "berth-disk-e2e-"))
  const image = join(base, "image")
  const directory = join(base, "disk")
  mkdirSync(directory)
  execFileSync("truncate", ["--size", `${bytes}`, image])
  execFileSync("mkfs.ext4", ["-q", "-F", "-m", "0", image])
  execFileSync("mount", ["-o", "loop", image, directory])
  return {
    directory,
    remove: () => {
      execFileSync("umount", ["--lazy", directory])
      rmSync(base, { recursive: true, force: true })
    },
  }
}

const BALLAST = "ballast"

/** Takes all of a disk but so many bytes. */
export const takeAllBut = (directory: string, leftBytes: number): void => {
  const file = join(directory, BALLAST)
  // The file itself takes blocks for its own map, and what was removed becomes free a moment later.
  for (let taken = 0; ; ) {
    execFileSync("sync", ["--file-system", directory])
    const { bavail, bsize } = statfsSync(directory)
    const bytes = bavail * bsize - leftBytes
    if (bytes <= 0) return
    try {
      const range = ["--offset", `${taken}`, "--length", `${bytes}`]
      execFileSync("fallocate", [...range, file], { stdio: "ignore" })
    } catch {
      // The blocks that were taken before the disk was full stay taken.
    }
    taken += bytes
  }
}

export const giveBack = (directory: string): void =>
  rmSync(join(directory, BALLAST), { force: true })

const untilFull = (take: (number: number) => void): void => {
  try {
    for (let number = 0; ; number += 1) take(number)
  } catch {
    // The last one has been taken.
  }
}
