import { execFileSync } from "node:child_process"
import {
  chmodSync,
  mkdtempSync,
  rmdirSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { freemem, tmpdir } from "node:os"
import { join } from "node:path"
import { isWholeRun } from "./sampled.ts"

/** The directory whose files Linux keeps in memory. */
const MEMORY = "/dev/shm"
const GIB = 1024 ** 3
/** The size that tests expect a disk to have. The image takes memory only for what was written to it. */
const SIZE_BYTES = 24 * GIB
/** The memory that files of a run take at most, with room to spare. */
const WRITTEN_BYTES = 8 * GIB
/** A machine with less than this free keeps its memory for the tests themselves. */
const NEEDED_BYTES = 12 * GIB

/** Nothing outlives the run, so nothing waits for the disk. */
const OPTIONS = "loop,noatime,barrier=0,data=writeback,commit=300"

/**
 * Gives the run's temporary files an ext4 of its own in memory: tests make and remove so many small files that a third
 * of a run's time went into the disk. Runs without root, with little memory or that leave nothing out have the host's.
 */
export default (): (() => void) | undefined => {
  if (isWholeRun || process.geteuid?.() !== 0 || !hasRoom()) return undefined
  const before = process.env.TMPDIR
  const directory = mkdtempSync(join(tmpdir(), "berth-tests-"))
  const image = join(MEMORY, `berth-tests-${process.pid}`)
  const remove = () => {
    rmdirSync(directory)
    rmSync(image, { force: true })
  }
  try {
    writeFileSync(image, "", { mode: 0o600 })
    truncateSync(image, SIZE_BYTES)
    execFileSync("mkfs.ext4", ["-q", "-F", "-m", "0", "-E", "nodiscard", image], { stdio: "pipe" })
    execFileSync("mount", ["-o", OPTIONS, image, directory], { stdio: "pipe" })
  } catch {
    remove()
    return undefined
  }
  chmodSync(directory, 0o1777)
  process.env.TMPDIR = directory
  return () => {
    if (before === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = before
    execFileSync("umount", ["--lazy", directory])
    remove()
  }
}

const hasRoom = (): boolean => {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize > WRITTEN_BYTES && freemem() > NEEDED_BYTES
  } catch {
    return false
  }
}
