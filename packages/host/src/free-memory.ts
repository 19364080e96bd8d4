import { readFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { parseMembership } from "./cgroups/membership.ts"
import { type CgroupMounts, parseCgroupMounts } from "./cgroups/mounts.ts"

export interface MemoryFiles {
  readonly meminfo: string
  readonly cgroup: string
  readonly mounts: string
}

const FILES: MemoryFiles = {
  meminfo: "/proc/meminfo",
  cgroup: "/proc/self/cgroup",
  mounts: "/proc/self/mounts",
}

/**
 * The memory that programs of this host can still have, in bytes: that of the host, or of this process's own limit, if
 * that is less. A limit that cannot be read counts as none.
 */
export const readFreeMemory = async (files: MemoryFiles = FILES): Promise<number> => {
  const [meminfo, cgroup, mounts] = await Promise.all([
    readIfThere(files.meminfo),
    readIfThere(files.cgroup),
    readIfThere(files.mounts),
  ])
  const available = /^MemAvailable:\s+(\d+) kB$/m.exec(meminfo)?.[1]
  const host = available === undefined ? Number.POSITIVE_INFINITY : Number(available) * 1024
  const limits = await Promise.all(groupsOf(parseCgroupMounts(mounts), cgroup).map(readLeft))
  return Math.min(host, ...limits)
}

interface Group {
  readonly directory: string
  readonly limit: string
  readonly usage: string
  /** The field of memory.stat for memory that the kernel drops when it needs room. */
  readonly droppable: string
}

const V1 = {
  limit: "memory.limit_in_bytes",
  usage: "memory.usage_in_bytes",
  droppable: "total_inactive_file",
}
const V2 = { limit: "memory.max", usage: "memory.current", droppable: "inactive_file" }

/** The cgroup of this process and those around it, each of which may have a limit. */
const groupsOf = ({ v1, v2 }: CgroupMounts, cgroup: string): Group[] => {
  const membership = parseMembership(cgroup)
  const [mount, path, files] = v1.has("memory")
    ? [v1.get("memory"), membership.get("memory"), V1]
    : [v2, membership.get(""), V2]
  if (mount === undefined || path === undefined) return []
  const directories = [join(mount, path)]
  for (let at = path; at !== "/"; at = dirname(at)) directories.push(join(mount, dirname(at)))
  return directories.map((directory) => ({ directory, ...files }))
}

const readLeft = async ({ directory, limit, usage, droppable }: Group): Promise<number> => {
  const [most, used, stat] = await Promise.all(
    [limit, usage, "memory.stat"].map((name) => readIfThere(join(directory, name))),
  )
  if (!/^\d+$/.test(most?.trim() ?? "") || !/^\d+$/.test(used?.trim() ?? ""))
    return Number.POSITIVE_INFINITY
  const dropped = new RegExp(`^${droppable} (\\d+)$`, "m").exec(stat ?? "")?.[1] ?? 0
  return Number(most) - Number(used) + Number(dropped)
}

const readIfThere = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "")
