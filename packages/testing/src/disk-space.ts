import { closeSync, openSync, rmSync, statSync, truncateSync, writeSync } from "node:fs"
import { join } from "node:path"

const PAGE_BYTES = 4_096

const ballast = (disk: string): string => join(disk, "ballast")

/** Fills the disk, except for some pages. */
export const fillDisk = (disk: string, freePages = 0): void => {
  const handle = openSync(ballast(disk), "a")
  try {
    for (;;) writeSync(handle, Buffer.alloc(PAGE_BYTES))
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOSPC") throw thrown
  } finally {
    closeSync(handle)
  }
  truncateSync(ballast(disk), statSync(ballast(disk)).size - freePages * PAGE_BYTES)
}

export const freeDisk = (disk: string): void => rmSync(ballast(disk))
