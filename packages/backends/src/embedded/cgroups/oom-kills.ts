import { join } from "node:path"
import { fieldOf, readIfThere, withNested } from "./files.ts"
import type { Place } from "./hierarchy.ts"

/** The number of processes that the kernel has killed at the memory limit. */
export const readOomKills = async (places: readonly Place[]): Promise<number> => {
  const place = places.find(({ controllers }) => controllers.has("memory"))
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
