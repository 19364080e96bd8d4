import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { cgroupError, isFileError } from "./file-error.ts"
import { writeValue } from "./files.ts"
import { type Freezer, freezeWithin, requestThaw } from "./freezer.ts"
import type { Place } from "./hierarchy.ts"
import { poll } from "./poll.ts"
import { processesIn } from "./processes.ts"

/** The deadline of killing. A process that lives longer hangs in the kernel, and no signal reaches it. */
const KILL_DEADLINE_MS = 8_000
/** Killed processes are mostly gone within a few milliseconds. After this long, the rest is killed again. */
const ROUND_MS = 250
/** How long a round waits until all processes stand still. A process that cannot be frozen is killed as it is. */
const STANDSTILL_MS = 250

/** Kills every process in these cgroups until none is left. */
export const killAll = async (
  places: readonly Place[],
  freezer: Freezer | undefined,
  signal: AbortSignal,
): Promise<void> => {
  const directories = places.map((place) => place.directory)
  const isEmpty = async () => (await processesIn(directories)).length === 0
  const endsAt = performance.now() + KILL_DEADLINE_MS
  while (performance.now() < endsAt) {
    if (await isEmpty()) return
    await killRound(places, freezer, signal)
    if (await poll(isEmpty, { signal, withinMs: ROUND_MS })) return
  }
  const pids = await processesIn(directories)
  throw new BerthError(
    "deadline.exceeded",
    `processes ${pids.join(", ")} did not end within ${KILL_DEADLINE_MS} ms of SIGKILL`,
    { details: { pids, paths: directories, deadlineMs: KILL_DEADLINE_MS } },
  )
}

const killRound = async (
  places: readonly Place[],
  freezer: Freezer | undefined,
  signal: AbortSignal,
): Promise<void> => {
  const unified = places.filter((place) => place.version === 2)
  const killed = await Promise.all(unified.map(killWhole))
  if (unified.length === places.length && killed.every(Boolean)) return
  await killStopped(
    places.map((place) => place.directory),
    freezer,
    signal,
  )
}

/**
 * Stops all processes before it kills them: none can fork between being listed and being killed. A process that was
 * killed while frozen under v1 ends as soon as it is thawed.
 */
export const killStopped = async (
  directories: readonly string[],
  freezer: Freezer | undefined,
  signal: AbortSignal,
): Promise<void> => {
  try {
    if (freezer) await freezeWithin(freezer, { signal, withinMs: STANDSTILL_MS })
    for (const pid of await processesIn(directories)) killOne(pid)
  } finally {
    if (freezer) await requestThaw(freezer)
  }
}

/** Has the kernel kill a v2 cgroup with all that is nested in it. Returns whether it can, which it does since 5.14. */
const killWhole = async ({ directory }: Place): Promise<boolean> => {
  const path = join(directory, "cgroup.kill")
  try {
    await writeValue(path, "1")
    return true
  } catch (error) {
    if (isFileError(error, "ENOENT", "ENODEV")) return false
    throw cgroupError(error, { action: "kill the processes", path })
  }
}

const killOne = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch (error) {
    // ESRCH: the process has ended since it was listed.
    if (!isFileError(error, "ESRCH"))
      throw cgroupError(error, { action: "kill the process", path: `/proc/${pid}` })
  }
}
