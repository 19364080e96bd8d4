import { join } from "node:path"
import type { CgroupStats } from "./cgroups.ts"
import { fieldOf, readIfThere, withNested } from "./files.ts"
import type { Controller, Place } from "./hierarchy.ts"
import { processesIn } from "./processes.ts"

export const readStats = async (places: readonly Place[]): Promise<CgroupStats> => {
  const [memoryBytes, cpuSeconds, pids] = await Promise.all([
    readMemory(placeOf(places, "memory")),
    readCpu(placeOf(places, "cpuacct")),
    readPids(places),
  ])
  return { memoryBytes, cpuSeconds, pids }
}

/** The number of processes that the kernel has killed at the memory limit. */
export const readOomKills = async (places: readonly Place[]): Promise<number> => {
  const place = placeOf(places, "memory")
  if (place === undefined) return 0
  if (place.version === 2) return countOomKills(join(place.directory, "memory.events"))
  // v1 counts a kill where the process was; v2 counts it in every cgroup above as well.
  const cgroups = await withNested(place.directory)
  const counts = await Promise.all(
    cgroups.map((it) => countOomKills(join(it, "memory.oom_control"))),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

const countOomKills = async (path: string): Promise<number> =>
  fieldOf((await readIfThere(path)) ?? "", "oom_kill") ?? 0

const readMemory = async (place: Place | undefined): Promise<number | undefined> => {
  if (place === undefined) return undefined
  const [usageFile, droppableField] =
    place.version === 1
      ? (["memory.usage_in_bytes", "total_inactive_file"] as const)
      : (["memory.current", "inactive_file"] as const)
  const [usage, detail] = await Promise.all([
    readNumber(place, usageFile),
    readIfThere(join(place.directory, "memory.stat")),
  ])
  if (usage === undefined) return undefined
  // Usage and file cache are read at different moments, so that their difference could fall below zero.
  return Math.max(0, usage - (fieldOf(detail ?? "", droppableField) ?? 0))
}

const readCpu = async (place: Place | undefined): Promise<number | undefined> => {
  if (place === undefined) return undefined
  if (place.version === 1) {
    const nanoseconds = await readNumber(place, "cpuacct.usage")
    return nanoseconds === undefined ? undefined : nanoseconds / 1e9
  }
  const text = await readIfThere(join(place.directory, "cpu.stat"))
  const microseconds = fieldOf(text ?? "", "usage_usec")
  return microseconds === undefined ? undefined : microseconds / 1e6
}

const readPids = async (places: readonly Place[]): Promise<number | undefined> => {
  const place = placeOf(places, "pids")
  if (place !== undefined) return readNumber(place, "pids.current")
  if (places.length === 0) return undefined
  return (await processesIn(places.map(({ directory }) => directory))).length
}

const readNumber = async ({ directory }: Place, file: string): Promise<number | undefined> => {
  const text = await readIfThere(join(directory, file))
  return text === undefined ? undefined : Number(text)
}

const placeOf = (places: readonly Place[], controller: Controller): Place | undefined =>
  places.find((place) => place.controllers.has(controller))
