import { join } from "node:path"
import { run } from "@berth/host/run"
import { readIfThere } from "./files.ts"
import type { Place } from "./hierarchy.ts"

/**
 * The deadline of a reclaim. A large sandbox on a slow disk takes seconds; memory that is not reclaimed by then stays.
 */
const RECLAIM_DEADLINE_MS = 10_000

/**
 * The memory that a sandbox keeps, the most recently used: about as much as it takes to answer and to run a command, so
 * that a wake-up reads no disk.
 */
export const KEPT_BYTES = 64 * 1024 * 1024

/** Whether memory can be reclaimed. v1 can only take everything at once, and a wake-up would wait for the disk. */
export const canReclaim = ({ version, controllers }: Pick<Place, "version" | "controllers">) =>
  version === 2 && controllers.has("memory")

/**
 * Has the kernel take memory back from processes that stand still: pages that can be read or swapped in again. The
 * kernel takes less where there is less to take. Does nothing on kernels that cannot; those before 5.19 have no such
 * file.
 */
export const reclaim = async (places: readonly Place[], signal: AbortSignal): Promise<void> => {
  const place = places.find(canReclaim)
  if (place === undefined) return
  const used = Number((await readIfThere(join(place.directory, "memory.current"))) ?? 0)
  if (used <= KEPT_BYTES) return
  // The kernel works while the file is written to, so a process that can be killed writes it.
  const script = 'test -e "$1" && printf %s "$2" > "$1"'
  const path = join(place.directory, "memory.reclaim")
  const command = ["/bin/sh", "-c", script, "sh", path, String(used - KEPT_BYTES)] as const
  await run(command, { signal, deadlineMs: RECLAIM_DEADLINE_MS })
}
