import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"

/** A slow disk writes half a gigabyte in this time. */
const FLUSH_DEADLINE_MS = 5 * 60_000

/** Writes everything of the tree's file system to the disk: one call instead of one for each of thousands of files. */
export const flush = async (tree: string, signal: AbortSignal): Promise<void> => {
  const { status, stderr } = await run(["sync", "-f", "--", tree], {
    signal,
    deadlineMs: FLUSH_DEADLINE_MS,
  })
  if (status === 0) return
  const full = /No space left on device|Disk quota exceeded/.test(stderr)
  throw new BerthError(full ? "toolbox.disk_full" : "toolbox.io", `flushing ${tree} failed`, {
    details: { path: tree, said: stderr },
  })
}
