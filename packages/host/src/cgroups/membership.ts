/** The cgroups a process is in: one path per v1 controller, and its v2 path under the key "". */
export type CgroupMembership = ReadonlyMap<string, string>

/** Reads the text of /proc/self/cgroup, whose lines are `id:controllers:path`. */
export const parseMembership = (procCgroup: string): CgroupMembership => {
  const paths = new Map<string, string>()
  for (const line of procCgroup.split("\n")) {
    const match = /^\d+:([^:]*):(\/.*)$/.exec(line)
    if (!match) continue
    const [, controllers = "", path = "/"] = match
    for (const controller of controllers.split(",")) paths.set(controller, path)
  }
  return paths
}
