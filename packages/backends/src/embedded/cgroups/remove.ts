import { BerthError } from "@berth/protocol/errors"
import { cgroupError } from "./file-error.ts"
import { removeIfEmpty, withNested } from "./files.ts"
import { poll } from "./poll.ts"
import { processesIn } from "./processes.ts"

const REMOVE_DEADLINE_MS = 8_000

/**
 * Removes a sandbox's cgroups when the last process has left, then each group that has no sandbox any more.
 *
 * @param directories the sandbox's cgroup in each hierarchy
 * @param groups the installation's group in each hierarchy
 */
export const removeCgroup = async (
  directories: readonly string[],
  groups: readonly string[],
  signal: AbortSignal,
): Promise<void> => {
  const removed = await poll(() => removeWhenEmpty(directories), {
    signal,
    withinMs: REMOVE_DEADLINE_MS,
  })
  if (!removed) throw await stillInUse(directories)
  await Promise.all(groups.map(removeOne))
}

/**
 * Removes the cgroups if no process is left in any hierarchy. Until then all stay, so that the process can still be
 * found and killed.
 */
const removeWhenEmpty = async (directories: readonly string[]): Promise<boolean> => {
  if ((await processesIn(directories)).length > 0) return false
  return (await Promise.all(directories.map(removeTree))).every(Boolean)
}

const removeTree = async (directory: string): Promise<boolean> => {
  for (const nested of await withNested(directory)) {
    if (!(await removeOne(nested))) return false
  }
  return true
}

const removeOne = async (directory: string): Promise<boolean> => {
  try {
    return await removeIfEmpty(directory)
  } catch (error) {
    throw cgroupError(error, { action: "remove the cgroup", path: directory })
  }
}

const stillInUse = async (directories: readonly string[]): Promise<BerthError> => {
  const pids = await processesIn(directories)
  return new BerthError(
    "deadline.exceeded",
    `cannot remove a cgroup that is in use after ${REMOVE_DEADLINE_MS} ms: processes ${pids.join(", ")}`,
    { details: { pids, paths: directories, deadlineMs: REMOVE_DEADLINE_MS } },
  )
}
