import { join } from "node:path"
import { socketMemoryBytes } from "../../socket-memory.ts"
import type { CgroupLimits } from "./cgroups.ts"
import { cgroupError, isFileError } from "./file-error.ts"
import { readIfThere, writeValue } from "./files.ts"
import type { Controller, Place } from "./hierarchy.ts"

/** The kernel's own default: short enough that a throttled sandbox still answers, long enough to be cheap. */
const CPU_PERIOD_US = 100_000

/** Sets the limits whose controllers this place has. */
export const setLimits = async (place: Place, limits: CgroupLimits): Promise<void> => {
  const setters = place.version === 1 ? V1 : V2
  for (const [controller, set] of setters) {
    if (place.controllers.has(controller)) await set(place.directory, limits)
  }
}

type Setter = (directory: string, limits: CgroupLimits) => Promise<void>

/** Limits memory and swap together: a sandbox at its limit must not go on in the host's swap. */
const memoryV1: Setter = async (directory, { memoryBytes }) => {
  // Optional: a kernel built without this limit has no such file.
  const ofSockets = { file: "memory.kmem.tcp.limit_in_bytes", optional: true }
  await set(directory, { ...ofSockets, value: `${socketMemoryBytes(memoryBytes)}` })
  const memory = { file: "memory.limit_in_bytes", value: `${memoryBytes}` }
  const withSwap = { file: "memory.memsw.limit_in_bytes", value: `${memoryBytes}` }
  const current = await readIfThere(join(directory, withSwap.file))
  if (current === undefined) {
    // A kernel that does not count swap can still be told to use none for this cgroup.
    await set(directory, memory)
    await set(directory, { file: "memory.swappiness", value: "0" })
    return
  }
  // The limit with swap may at no moment be below the one without.
  const order = memoryBytes > Number(current) ? [withSwap, memory] : [memory, withSwap]
  for (const step of order) await set(directory, step)
}

const memoryV2: Setter = async (directory, { memoryBytes }) => {
  await set(directory, { file: "memory.max", value: `${memoryBytes}` })
  // Optional: a kernel without swap has no such file.
  await set(directory, { file: "memory.swap.max", value: "0", optional: true })
}

const cpuV1: Setter = async (directory, { cpus }) => {
  await set(directory, { file: "cpu.cfs_period_us", value: `${CPU_PERIOD_US}` })
  await set(directory, { file: "cpu.cfs_quota_us", value: `${quotaUs(cpus)}` })
}

const cpuV2: Setter = (directory, { cpus }) =>
  set(directory, { file: "cpu.max", value: `${quotaUs(cpus)} ${CPU_PERIOD_US}` })

const pids: Setter = (directory, limits) =>
  set(directory, { file: "pids.max", value: `${limits.pids}` })

const V1: readonly (readonly [Controller, Setter])[] = [
  ["memory", memoryV1],
  ["cpu", cpuV1],
  ["pids", pids],
]

const V2: readonly (readonly [Controller, Setter])[] = [
  ["memory", memoryV2],
  ["cpu", cpuV2],
  ["pids", pids],
]

/**
 * A limit is refused if it is below what is in use, above that of the cgroup's parent, or no number that the kernel
 * takes.
 */
const MEANINGS = {
  EBUSY: "backend.limit_refused",
  EINVAL: "backend.limit_refused",
  ERANGE: "backend.limit_refused",
} as const

const quotaUs = (cpus: number): number => Math.round(cpus * CPU_PERIOD_US)

const set = async (
  directory: string,
  { file, value, optional = false }: { file: string; value: string; optional?: boolean },
): Promise<void> => {
  const path = join(directory, file)
  try {
    await writeValue(path, value)
  } catch (error) {
    if (optional && isFileError(error, "ENOENT")) return
    throw cgroupError(error, { action: `set ${file} to ${value}`, path, meanings: MEANINGS })
  }
}
