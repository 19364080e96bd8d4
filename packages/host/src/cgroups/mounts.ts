/** The cgroup hierarchies of a host, as /proc/mounts tells them. */
export interface CgroupMounts {
  readonly mode: CgroupMode
  /** The mount point of each v1 controller. */
  readonly v1: ReadonlyMap<string, string>
  /** The mount point of the v2 hierarchy. */
  readonly v2: string | undefined
}

/** `hybrid` means v1 controllers with a v2 hierarchy beside them. */
export type CgroupMode = "v1" | "v2" | "hybrid" | "none"

/** Reads the text of /proc/mounts. */
export const parseCgroupMounts = (procMounts: string): CgroupMounts => {
  const v1 = new Map<string, string>()
  let v2: string | undefined
  for (const line of procMounts.split("\n")) {
    const [, target, type, options] = line.split(" ")
    if (target === undefined || options === undefined) continue
    if (type === "cgroup2") v2 ??= unescapePath(target)
    if (type !== "cgroup") continue
    for (const controller of options.split(",").filter(isController)) {
      if (!v1.has(controller)) v1.set(controller, unescapePath(target))
    }
  }
  return { mode: modeOf(v1.size > 0, v2 !== undefined), v1, v2 }
}

const modeOf = (hasV1: boolean, hasV2: boolean): CgroupMode => {
  if (hasV1) return hasV2 ? "hybrid" : "v1"
  return hasV2 ? "v2" : "none"
}

/** The controllers that Berth uses. The options of a v1 mount name its controllers among ordinary mount flags. */
const CONTROLLERS: ReadonlySet<string> = new Set(["memory", "pids", "cpu", "cpuacct", "freezer"])
const isController = (option: string): boolean => CONTROLLERS.has(option)

/** The kernel writes a space, tab, newline or backslash in a path as three octal digits. */
const unescapePath = (path: string): string =>
  path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  )
